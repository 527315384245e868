"""Time a model file beside its rivals, in turns: a disturbance of the machine affects all of them alike."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from prunus.arrays import Floats
from prunus.measure.cost import CostReport
from prunus.measure.speed import ONNX_DENSE, Gain, Speed, Timing
from prunus.runtime.predictor import Predictor
from prunus.timing.rivals import ONNX_INT8, Rivals, Runs, random_images, torch_threads
from prunus.timing.sessions import Run
from prunus.timing.watching import counting

Key = TypeVar("Key")
PRUNUS = "Prunus"
WARM_UP = 3  # rounds that are not counted
PAUSE = 0.003  # seconds that idle threads of other runtimes spin
WAKING = 0.005  # seconds that an idle core of a virtual machine may take to run a thread that is woken


def measure_speeds(
    model: Path, domains: Sequence[str], rivals: Rivals, threads: int, batch: int, rounds: int
) -> list[Speed]:
    """Time all engines with one number of threads: single images, then batches."""
    predictor = Predictor(model, threads)
    runs: Runs = {(PRUNUS, domain): _prunus_run(predictor, domain) for domain in domains}
    runs |= rivals.runs(threads)
    size = predictor.bundle.manifest.image_size
    pause = PAUSE if threads > 1 else 0.0
    batches = max(3, rounds // 10)
    on_round = counting(threads, WARM_UP + rounds + WARM_UP + batches)
    with torch_threads(threads):
        latency = take_turns(_bind(runs, random_images(1, size)), rounds, pause, on_round)
        passes = take_turns(_bind(runs, random_images(batch, size)), batches, pause, on_round)
    return [
        Speed(
            engine=engine,
            threads=threads,
            domain=domain,
            latency=latency[engine, domain],
            images_per_second=1000 * batch / passes[engine, domain].median_ms,
        )
        for engine, domain in runs
    ]


def take_turns(
    runs: Mapping[Key, Callable[[], object]],
    rounds: int,
    pause: float = 0.0,
    on_round: Callable[[], None] = lambda: None,
) -> dict[Key, Timing]:
    """Time every run once a round, in a new order each round.

    Untimed calls before the timed one wake the run's threads and fill the caches with its data.

    Args:
        pause: seconds between two runs, for threads of the previous run that still spin. With a pause, the untimed
            calls go on until sleeping threads are awake.
        on_round: called after every round, also after those that are not counted.
    """
    seconds: dict[Key, list[float]] = {key: [] for key in runs}
    order = list(runs)
    generator = random.Random(0)
    for _ in range(WARM_UP + rounds):
        generator.shuffle(order)
        for key in order:
            time.sleep(pause)
            _wake(runs[key], WAKING if pause else 0.0)
            start = time.perf_counter()
            runs[key]()
            seconds[key].append(time.perf_counter() - start)
        on_round()
    return {key: _summary(times[WARM_UP:]) for key, times in seconds.items()}


def _wake(run: Callable[[], object], seconds: float) -> None:
    awake = time.perf_counter() + seconds
    run()
    while time.perf_counter() < awake:
        run()


def _summary(seconds: list[float]) -> Timing:
    return Timing(median_ms=1000 * float(np.median(seconds)), p95_ms=1000 * float(np.percentile(seconds, 95)))


def compare_with_dense(costs: CostReport, speeds: Sequence[Speed], dtype: str) -> list[Gain]:
    """Compare every domain with the dense network in ONNX Runtime, in 8 bits if the file is, where that was timed."""
    over = ONNX_INT8 if dtype == "int8" else ONNX_DENSE
    dense = {each.threads: each.latency.median_ms for each in speeds if each.engine == over and each.domain is None}
    gains = []
    for speed in speeds:
        if speed.engine == PRUNUS and speed.domain and speed.threads in dense:
            speed_up = dense[speed.threads] / speed.latency.median_ms
            gain = Gain(domain=speed.domain, threads=speed.threads, speed_up=speed_up, over=over)
            gains.append(gain if dtype == "int8" else _beside_the_promise(gain, costs))
    return gains


def _beside_the_promise(gain: Gain, costs: CostReport) -> Gain:
    promised = promised_speed_up(costs, gain.domain)
    return gain.model_copy(update={"promised": promised, "realised": gain.speed_up / promised})


def promised_speed_up(costs: CostReport, domain: str) -> float:
    """Divide the MACs of the dense network by those of a domain."""
    return costs.dense_macs() / max(costs.macs(domain), 1)


def _prunus_run(predictor: Predictor, domain: str) -> Run:
    return lambda images: predictor.logits(images, domain)


def _bind(runs: Runs, images: Floats) -> dict[tuple[str, str | None], Callable[[], object]]:
    return {key: partial(run, images) for key, run in runs.items()}
