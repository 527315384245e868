"""Decide who teaches a domain: the network that was trained for that, or the backbone as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prunus.learning.frozen_features import read_classifiers
from prunus.learning.teaching import Teacher
from prunus.masks.network import MultiDomainNet
from prunus.run_folder import Ending, RunFolder
from prunus.training.reporting.findings import is_below_frozen


def make_teacher(net: MultiDomainNet, folder: RunFolder, source: str | None, note: Callable[[str], None]) -> Teacher:
    """Let a run teach, and its backbone in the domains that the run classifies worse than the backbone does.

    Few images are enough to train away what the backbone knows of the domain that it was pretrained on.

    Args:
        net: of the run.
        source: the domain that the run's backbone was pretrained on, if it is one of the domains.
    """
    classifiers = read_classifiers(folder.frozen_features)
    ending = folder.read_ending()
    reasons = {name: why for name, why in _outdone(ending, source) if name in classifiers} if ending else {}
    for name, why in reasons.items():
        note(f"domain {name!r} is taught by the unchanged backbone with a linear classifier: {why}")
    return Teacher(net, {name: classifiers[name].to(net.device).logits for name in reasons})


def _outdone(ending: Ending, source: str | None) -> Iterator[tuple[str, str]]:
    """Yield the domains in which the backbone is the better teacher, and how that is known."""
    for name, domain in ending.domains.items():
        if is_below_frozen(domain):
            reached, frozen = domain.validation_accuracy, domain.frozen_accuracy
            yield (
                name,
                f"it classifies {frozen:.1%} of the validation images correctly, the trained teacher {reached:.1%}",
            )
        elif name == source and domain.validation_accuracy is None:
            yield name, "it was pretrained on this domain, and there are no validation images to compare the two"
