"""Decide who teaches a domain: the network that was trained for that, or the backbone as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prunus.config import Recipe
from prunus.errors import DamagedFileError, TrainingError
from prunus.learning.frozen_features import MOST_IMAGES, read_classifiers
from prunus.learning.teaching import Teacher
from prunus.masks.network import MultiDomainNet
from prunus.run_folder import RunFolder
from prunus.training.reporting.findings import is_below_frozen

Reasons = dict[str, str]  # domain that the backbone teaches -> why


@dataclass(frozen=True)
class TeachingRun:
    """A finished run that teaches another one."""

    net: MultiDomainNet
    recipe: Recipe
    folder: RunFolder


def backbone_teaches(run: TeachingRun, recipe: Recipe, sizes: Mapping[str, int]) -> Reasons:
    """Find the domains that a run classifies worse than its backbone does with a linear classifier.

    Few images are enough to train away what the backbone knows, above all of the domain that it was pretrained on.

    Args:
        recipe: of the run that is taught.
        sizes: domain -> number of its training images.
    """
    return dict(
        _outdone(run, {run.recipe.source, recipe.source if run.recipe.backbone == recipe.backbone else None}, sizes)
    )


def _outdone(run: TeachingRun, sources: set[str | None], sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    ending = run.folder.read_ending()
    has_classifiers = run.folder.frozen_features.exists()  # runs of earlier versions have none
    for name, domain in ending.domains.items() if ending else ():
        if is_below_frozen(domain):
            reached, frozen = domain.validation_accuracy, domain.frozen_accuracy
            yield name, f"{frozen:.1%} of the validation images are right, and {reached:.1%} with the trained teacher"
        elif name in sources and not domain.validation_images and has_classifiers and sizes[name] <= MOST_IMAGES:
            yield name, "it was pretrained on this domain, and there are no validation images to compare the two"


def make_teacher(run: TeachingRun, reasons: Reasons) -> Teacher:
    """Let a run teach, and its unchanged backbone in some domains."""
    if not reasons:
        return Teacher(run.net)
    classifiers = read_classifiers(run.folder.frozen_features)
    if lost := sorted(reasons.keys() - classifiers.keys()):
        raise TrainingError(
            f"{run.folder.frozen_features} has no classifier for {', '.join(lost)}, which the backbone of this run "
            "teaches; restore the file, or train the teacher again"
        )
    return Teacher(run.net, {name: classifiers[name].to(run.net.device).logits for name in reasons})


def read_reasons(folder: RunFolder) -> Reasons | None:
    """Read in which domains the backbone teaches a run that has begun; None if the run does not know."""
    if not folder.teachers.exists():
        return None
    try:
        content = json.loads(folder.teachers.read_bytes())
        return {str(name): str(reason) for name, reason in content.items()}
    except (OSError, ValueError, AttributeError):
        raise DamagedFileError(f"{folder.teachers} cannot be read; restore it, or start a new run") from None
