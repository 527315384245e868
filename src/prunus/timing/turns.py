"""Time several engines in turns: a disturbance of the machine affects all of them alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from prunus.measure.speed import Timing

Key = TypeVar("Key")
WARM_UP = 3  # rounds that are not counted


def take_turns(runs: Mapping[Key, Callable[[], object]], rounds: int, pause: float = 0.0) -> dict[Key, Timing]:
    """Time every run once a round, in a new order each round.

    An untimed call before the timed one wakes the run's threads and fills the caches with its data.

    Args:
        pause: seconds between two runs, for threads of the previous run that still spin.
    """
    seconds: dict[Key, list[float]] = {key: [] for key in runs}
    order = list(runs)
    generator = random.Random(0)
    for _ in range(WARM_UP + rounds):
        generator.shuffle(order)
        for key in order:
            if pause:
                time.sleep(pause)
            runs[key]()
            start = time.perf_counter()
            runs[key]()
            seconds[key].append(time.perf_counter() - start)
    return {key: _summary(times[WARM_UP:]) for key, times in seconds.items()}


def _summary(seconds: list[float]) -> Timing:
    return Timing(median_ms=1000 * float(np.median(seconds)), p95_ms=1000 * float(np.percentile(seconds, 95)))
