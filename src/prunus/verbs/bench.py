"""Measure how fast a model file runs, beside the dense network that it was pruned from."""

from collections.abc import Sequence

from prunus.errors import DataError
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.speed import Benchmark, Speed
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine, usable_processors
from prunus.timing.rivals import Rivals
from prunus.timing.speeds import compare_with_dense, measure_speeds
from prunus.timing.watching import rounds_watched_by
from prunus.verbs.arguments import ModelLike, model_path

__all__ = ["bench", "rounds_watched_by"]


def bench(
    model: ModelLike,
    threads: Sequence[int] | None = None,
    domains: Sequence[str] = (),
    batch: int = 16,
    rounds: int = 50,
) -> Benchmark:
    """Time a model file: every domain, against the dense network in PyTorch and ONNX Runtime and its own ONNX exports.

    All engines take turns in one process. Engines that are not installed are listed as missing.

    Args:
        threads: numbers of threads (default: 1, and one per usable processor).
        domains: domains to time (default: all).
        batch: images of one pass for throughput; latency is always that of one image.
    """
    if rounds < 1 or batch < 1:
        raise DataError(f"rounds and batch must be at least 1, got {rounds} and {batch}")
    path = model_path(model)
    predictor = Predictor(path)
    bundle = predictor.bundle
    for domain in domains:
        bundle.check_domain(domain)
    timed = domains or bundle.domains
    rivals = Rivals(bundle, timed)
    speeds: list[Speed] = []
    for count in dict.fromkeys(threads or [1, usable_processors()]):
        speeds += measure_speeds(path, timed, rivals, count, batch, rounds)
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
