"""Open a run folder as something to measure, and its frozen backbone to compare it with."""

from functools import partial
from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_size
from prunus.checkpoints.provenance import domain_entries
from prunus.errors import BackboneError
from prunus.evaluation.packing import pack_run
from prunus.evaluation.subject import Subject, recipe_costs
from prunus.learning.frozen_features import frozen_classifiers
from prunus.learning.scoring import net_classifier
from prunus.measure.score import FEATURE
from prunus.methods.costs import network_costs
from prunus.methods.table import adapt, choose_method
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.run import TrainedRun, open_run


def open_with_baseline(path: Path, device: str = "auto") -> tuple[Subject, Subject | None]:
    """Open a run, and its frozen backbone as a model of its own if the run has fitted classifiers to it."""
    run = open_run(path, device)
    subject = _run_subject(run, path)
    return subject, _frozen_subject(run, path) if subject.frozen else None


def open_frozen_features(path: Path, device: str = "auto") -> Subject:
    """Open the frozen backbone of a run with the classifiers that were fitted to it, as a model of method `feature`."""
    return _frozen_subject(open_run(path, device), path)


def open_run_subject(path: Path, device: str = "auto") -> Subject:
    """Open a run as something to measure."""
    return _run_subject(open_run(path, device), path)


def _run_subject(run: TrainedRun, path: Path) -> Subject:
    bundle = _packed(run)
    return Subject(
        run.recipe,
        domain_entries(run.checkpoint.identity),
        partial(net_classifier, run.net),
        recipe_costs(bundle, run.recipe) if bundle else network_costs(run.net, run.backbone.probe),
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


def _packed(run: TrainedRun) -> Bundle | None:
    try:
        return pack_run(run) if choose_method(run.recipe).method.packable else None
    except BackboneError:
        return None
