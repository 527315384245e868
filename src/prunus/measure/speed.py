"""Time several engines side by side: they take turns, so that whatever disturbs the machine disturbs all alike."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

Key = TypeVar("Key")
WARM_UP = 3  # rounds that are not counted


@dataclass(frozen=True)
class Timing:
    """How long one pass takes."""

    median_ms: float
    p95_ms: float


def take_turns(runs: Mapping[Key, Callable[[], object]], rounds: int, pause: float = 0.0) -> dict[Key, Timing]:
    """Time every run once a round, in another order each time, as one of many calls in a row.

    A call before the timed one wakes its threads and fills the caches with what it needs, not with what ran before.

    Args:
        pause: seconds between two runs, for threads of the last one that still spin.
    """
    seconds: dict[Key, list[float]] = {key: [] for key in runs}
    order, generator = list(runs), random.Random(0)
    for _ in range(WARM_UP + rounds):
        generator.shuffle(order)
        for key in order:
            if pause:
                time.sleep(pause)
            runs[key]()
            began = time.perf_counter()
            runs[key]()
            seconds[key].append(time.perf_counter() - began)
    counted = {key: 1000 * np.array(each[WARM_UP:]) for key, each in seconds.items()}
    return {key: Timing(float(np.median(each)), float(np.percentile(each, 95))) for key, each in counted.items()}
