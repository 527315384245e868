"""Open a run folder or a model file as something to measure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import Recipe
from prunus.errors import BundleError, PrunusError
from prunus.evaluation.traits import method_traits
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.cost import CostReport
from prunus.presets import of_any_version
from prunus.probabilities import Classifier, crop_probabilities
from prunus.recipes import parse_recipe
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import usable_processors


@dataclass(frozen=True)
class Subject:
    """Something to measure: a masked network or a model file.

    Args:
        classifier: domain -> function from stored images to probabilities.
        steps: steps done, and steps of the whole training run.
        model_bytes: None where no model file can hold the method or the network.
        bundle: what such a file holds.
        frozen: classifiers on the frozen backbone by domain, where a run has kept them.
    """

    recipe: Recipe
    domains: Mapping[str, DomainEntry]
    classifier: Callable[[str], Classifier]
    costs: CostReport
    steps: tuple[int, int]
    dense_bytes: int
    model_bytes: int | None
    bundle: Bundle | None = None
    frozen: Mapping[str, Classifier] = field(default_factory=dict)


def open_subject(path: Path, device: str = "auto") -> Subject:
    """Open a run folder or a model file."""
    if not path.is_dir():
        return _open_file(path, device)
    from prunus.evaluation.run_subject import open_run_subject  # noqa: PLC0415  # model files need no torch

    return open_run_subject(path, device)


RECORDED = {"recipe": dict, "step": int, "total_steps": int}  # what a file must record of its run to be measured
UNMEASURED = "cannot be measured; use prunus predict"


def _open_file(path: Path, device: str) -> Subject:
    if device not in ("auto", "cpu"):  # model files run on the processor, but an unknown device is refused all the same
        from prunus.backbone.device import choose_device  # noqa: PLC0415  # needs torch

        choose_device(device)
    predictor = Predictor(path, threads=usable_processors())
    manifest = predictor.bundle.manifest
    for key, kind in RECORDED.items():
        if not isinstance(manifest.provenance.get(key), kind):
            raise BundleError(f"{path} does not record its {key} and {UNMEASURED}")
    recipe = recipe_of_domains(predictor.bundle, path, UNMEASURED)
    return Subject(
        recipe,
        manifest.domains,
        lambda domain: partial(crop_probabilities, partial(predictor.logits, domain=domain)),
        recipe_costs(predictor.bundle, recipe),
        (manifest.provenance["step"], manifest.provenance["total_steps"]),
        manifest.dense_bytes,
        path.stat().st_size,
        predictor.bundle,
    )


def recipe_of_file(bundle: Bundle, file: Path) -> Recipe | None:
    """Return the recipe that a model file records; None if it records none, or something else in its place."""
    content = bundle.manifest.provenance.get("recipe")
    if not isinstance(content, dict) or not content:
        return None
    try:
        recipe = parse_recipe(of_any_version(content))
        method_traits(recipe)  # refuses unknown methods and options
    except PrunusError as error:
        raise BundleError(f"{file} records a recipe that cannot be read: {error}") from None
    return recipe


def recipe_of_domains(bundle: Bundle, file: Path, purpose: str) -> Recipe:
    """Return the recipe that a model file records, of which it must have every domain.

    Args:
        purpose: what cannot be done without, as in "cannot be measured".
    """
    recipe = recipe_of_file(bundle, file)
    if recipe is None:
        raise BundleError(f"{file} does not record its recipe and {purpose}")
    for choice in recipe.domains:
        if choice.name not in bundle.manifest.domains:
            raise BundleError(f"{file} records a domain {choice.name!r} that it does not have, and {purpose}")
    return recipe


def recipe_costs(bundle: Bundle, recipe: Recipe) -> CostReport:
    """Count what a bundle takes, by the rules of its recipe's method."""
    method = method_traits(recipe)
    return bundle_costs(bundle, method.masked, method.granularity)
