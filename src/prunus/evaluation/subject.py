"""Open a run folder or a model file as something to measure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from prunus.backbone.device import choose_device
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_size
from prunus.bundle.manifest import DomainEntry
from prunus.checkpoints.provenance import domain_entries
from prunus.config import Recipe
from prunus.errors import BackboneError, BundleError
from prunus.evaluation.packing import pack_run
from prunus.learning.frozen_features import frozen_classifiers
from prunus.learning.scoring import net_classifier
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.cost import CostReport
from prunus.measure.score import FEATURE
from prunus.methods.costs import network_costs
from prunus.methods.table import adapt, choose_method
from prunus.presets import of_any_version
from prunus.probabilities import Classifier, crop_probabilities
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import usable_processors
from prunus.training.run import TrainedRun, open_run


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
    return _open_run(path, device) if path.is_dir() else _open_file(path, device)


def open_with_baseline(path: Path, device: str = "auto") -> tuple[Subject, Subject | None]:
    """Open a run, and its frozen backbone as a model of its own if the run has fitted classifiers to it."""
    run = open_run(path, device)
    subject = _run_subject(run, path)
    return subject, _frozen_subject(run, path) if subject.frozen else None


def open_frozen_features(path: Path, device: str = "auto") -> Subject:
    """Open the frozen backbone of a run with the classifiers that were fitted to it, as a model of method `feature`."""
    return _frozen_subject(open_run(path, device), path)


def _open_run(path: Path, device: str) -> Subject:
    return _run_subject(open_run(path, device), path)


def _run_subject(run: TrainedRun, path: Path) -> Subject:
    bundle = _packed(run)
    return Subject(
        run.recipe,
        domain_entries(run.checkpoint.identity),
        partial(net_classifier, run.net),
        _recipe_costs(bundle, run.recipe) if bundle else network_costs(run.net, run.backbone.probe),
        (run.checkpoint.position.step, run.checkpoint.position.total_steps),
        run.net.dense_bytes(),
        bundle_size(bundle, run.recipe.dtype) if bundle else None,
        bundle,
        frozen_classifiers(run.net, RunFolder(path).frozen_features),
    )


def _frozen_subject(run: TrainedRun, path: Path) -> Subject:
    identity = run.checkpoint.identity
    content = run.recipe.model_dump(mode="json", exclude={"sharing", "granularity", "teacher", "init"})
    recipe = parse_recipe(content | {"method": FEATURE})
    net = adapt(run.backbone, identity.classes, FEATURE, recipe.seed)
    return Subject(
        recipe,
        domain_entries(identity),
        frozen_classifiers(run.net, RunFolder(path).frozen_features).__getitem__,
        network_costs(net, run.backbone.probe),
        (0, 0),
        net.dense_bytes(),
        None,
    )


def _open_file(path: Path, device: str) -> Subject:
    choose_device(device)  # model files run on the processor, but an unknown device is refused all the same
    predictor = Predictor(path, threads=usable_processors())
    manifest = predictor.bundle.manifest
    if missing := {"recipe", "step", "total_steps"} - manifest.provenance.keys():
        raise BundleError(f"{path} does not record its {min(missing)} and cannot be measured; use prunus predict")
    recipe = parse_recipe(of_any_version(manifest.provenance["recipe"]))
    return Subject(
        recipe,
        manifest.domains,
        lambda domain: partial(crop_probabilities, partial(predictor.logits, domain=domain)),
        _recipe_costs(predictor.bundle, recipe),
        (manifest.provenance["step"], manifest.provenance["total_steps"]),
        manifest.dense_bytes,
        path.stat().st_size,
        predictor.bundle,
    )


def _packed(run: TrainedRun) -> Bundle | None:
    try:
        return pack_run(run) if choose_method(run.recipe).method.packable else None
    except BackboneError:
        return None


def _recipe_costs(bundle: Bundle, recipe: Recipe) -> CostReport:
    chosen = choose_method(recipe)
    return bundle_costs(bundle, chosen.method.masked, getattr(chosen.options, "granularity", "kernel"))
