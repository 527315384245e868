"""Measure how fast a model file runs, beside the dense network that it was pruned from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from prunus.errors import DataError
from prunus.evaluation.rival_accuracy import Engines, engine_accuracies, training_images
from prunus.evaluation.subject import Subject, open_subject
from prunus.evaluation.watching import watched_by
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.speed import Benchmark, Speed
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine, usable_processors
from prunus.timing.rivals import Rivals
from prunus.timing.speeds import PRUNUS, compare_with_dense, measure_speeds
from prunus.timing.watching import rounds_watched_by
from prunus.verbs.arguments import ModelLike, model_path

__all__ = ["bench", "rounds_watched_by", "watched_by"]


def bench(
    model: ModelLike,
    threads: Sequence[int] | None = None,
    domains: Sequence[str] = (),
    batch: int = 16,
    rounds: int = 50,
    data: str | Path | None = None,
) -> Benchmark:
    """Time a model file: every domain, against the dense network in PyTorch and ONNX Runtime and its own ONNX exports.

    All engines take turns in one process. Engines that are not installed are listed as missing. ONNX Runtime also runs
    the dense network in 8 bits, and so does OpenVINO where it is installed.

    Args:
        threads: numbers of threads (default: 1, and one per usable processor).
        domains: domains to time (default: all).
        batch: images of one pass for throughput; latency is always that of one image.
        data: the folder of the domains: every engine's accuracy on test images is then measured too, and engines of 8
            bits also run the network of every domain, with ranges that they learn from training images.
    """
    if rounds < 1 or batch < 1:
        raise DataError(f"rounds and batch must be at least 1, got {rounds} and {batch}")
    path = model_path(model)
    predictor = Predictor(path)
    bundle = predictor.bundle
    for domain in domains:
        bundle.check_domain(domain)
    timed = domains or bundle.domains
    subject = None if data is None else open_subject(path, "cpu")
    rivals = Rivals(bundle, timed, training_images(subject, timed, data) if subject else {})
    accuracies = _accuracies(subject, predictor, rivals, timed, data) if subject else {}
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
        gains=tuple(compare_with_dense(bundle_costs(bundle), speeds)),
        missing=rivals.missing,
    )


def _accuracies(
    subject: Subject, predictor: Predictor, rivals: Rivals, domains: Sequence[str], data: str | Path | None
) -> dict[tuple[str, str], float]:
    engines: Engines = {(PRUNUS, domain): partial(predictor.logits, domain=domain) for domain in domains}
    engines |= {(engine, domain): run for (engine, domain), run in rivals.runs(1).items() if domain is not None}
    return engine_accuracies(subject, engines, data)
