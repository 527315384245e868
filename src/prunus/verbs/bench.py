"""Measure how fast a model file runs, beside the dense network that it was pruned from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from prunus.arrays import Floats
from prunus.errors import DataError, PrunusError
from prunus.evaluation.rival_accuracy import Engines, engine_accuracies
from prunus.evaluation.subject import Subject, open_subject
from prunus.evaluation.watching import decoding, watched_by
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.speed import Benchmark, Speed
from prunus.quantizing.images import Draw
from prunus.quantizing.run_images import draw_run_images
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine, usable_processors
from prunus.timing.rivals import Rivals
from prunus.timing.speeds import PRUNUS, compare_with_dense, measure_speeds
from prunus.timing.watching import rounds_watched_by
from prunus.verbs.arguments import ModelLike, model_path

__all__ = ["bench", "rounds_watched_by", "watched_by"]


def bench(  # noqa: PLR0913  # what to time, how, and on which images to measure
    model: ModelLike,
    threads: Sequence[int] | None = None,
    domains: Sequence[str] = (),
    batch: int = 16,
    rounds: int = 50,
    data: str | Path | None = None,
    *,
    accuracy: bool = True,
) -> Benchmark:
    """Time a model file: every domain, against the dense network in PyTorch and ONNX Runtime and its own ONNX exports.

    All engines take turns in one process. Engines that are not installed are listed as missing. ONNX Runtime also runs
    the dense network in 8 bits, and so does OpenVINO where it is installed.

    Args:
        threads: numbers of threads (default: 1, and one per usable processor).
        domains: domains to time (default: all).
        batch: images of one pass for throughput; latency is always that of one image.
        data: the folder of the domains, if it is not where the recipe says.
        accuracy: whether to measure every engine on the test images too, where they are found. Engines of 8 bits then
            also run the network of every domain, with ranges from the training images that an 8-bit file is made with.
    """
    if rounds < 1 or batch < 1:
        raise DataError(f"rounds and batch must be at least 1, got {rounds} and {batch}")
    path = model_path(model)
    predictor = Predictor(path)
    bundle = predictor.bundle
    for domain in domains:
        bundle.check_domain(domain)
    timed = domains or bundle.domains
    rivals, accuracies, unmeasured = _on_images(path, predictor, timed, data, accuracy)
    speeds: list[Speed] = []
    for count in dict.fromkeys(threads or [1, usable_processors()]):
        for speed in measure_speeds(path, timed, rivals, count, batch, rounds):
            speeds.append(speed.model_copy(update={"accuracy": accuracies.get((speed.engine, speed.domain or ""))}))
    return Benchmark(
        model=path.name,
        backbone=bundle.manifest.backbone,
        image_size=bundle.manifest.image_size,
        batch=batch,
        machine=describe_machine(),
        prunus_engine=predictor.engine,
        versions=rivals.versions,
        speeds=tuple(speeds),
        gains=tuple(compare_with_dense(bundle_costs(bundle), speeds, bundle.dtype)),
        missing=rivals.missing,
        unmeasured=unmeasured,
    )


Accuracies = dict[tuple[str, str], float]  # (engine, domain) -> on the test images


def _on_images(
    path: Path, predictor: Predictor, domains: Sequence[str], data: str | Path | None, wanted: bool
) -> tuple[Rivals, Accuracies, str | None]:
    """Build the rivals and measure all engines, or say why images are missing."""
    reason = None
    if wanted:
        try:
            return *_measured(path, predictor, domains, data), None
        except PrunusError as error:
            if data is not None:  # it was asked for
                raise
            reason = str(error)
    return Rivals(predictor.bundle, domains), {}, reason


def _measured(
    path: Path, predictor: Predictor, domains: Sequence[str], data: str | Path | None
) -> tuple[Rivals, Accuracies]:
    subject = open_subject(path, "cpu")
    ours: Engines = {(PRUNUS, domain): partial(predictor.logits, domain=domain) for domain in domains}
    accuracies = engine_accuracies(subject, ours, data)
    rivals = Rivals(predictor.bundle, domains, _calibration_images(subject, domains, data))
    theirs = {(engine, domain): run for (engine, domain), run in rivals.runs(1).items() if domain is not None}
    return rivals, accuracies | engine_accuracies(subject, theirs, data)


def _calibration_images(subject: Subject, domains: Sequence[str], data: str | Path | None) -> dict[str, Floats]:
    """Return the images with which `prunus prune` makes an 8-bit file of the same recipe."""
    entries = {domain: subject.domains[domain] for domain in domains}
    draw = Draw(seed=subject.recipe.seed)
    drawn = draw_run_images(subject.recipe, entries, data, draw, decoding())
    return {domain: np.concatenate([*each.calibration.prepared(1)]) for domain, each in drawn.items()}
