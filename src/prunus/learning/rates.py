"""The course of the learning rates over a training run, as a factor of those in the recipe."""

import math
from collections.abc import Callable

from prunus.config import Schedule, Training


def rate_factor(training: Training, epoch: int, progress: float) -> float:
    """Return the factor of all learning rates at a step; `progress` is the share of the epochs before it."""
    warmup = min(training.warmup_epochs / training.epochs, 1.0)
    if progress < warmup:
        return progress / warmup
    return SCHEDULES[training.schedule](training, epoch, (progress - warmup) / (1 - warmup))


def _step(training: Training, epoch: int, _progress: float) -> float:
    drops = sum(epoch >= round(share * training.epochs) for share in training.lr_drops)
    return float(training.lr_drop_factor**drops)


def _cosine(_training: Training, _epoch: int, progress: float) -> float:
    return (1 + math.cos(math.pi * progress)) / 2


def _constant(_training: Training, _epoch: int, _progress: float) -> float:
    return 1.0


# the last argument of a schedule is the share of the steps after the warm-up that is done
SCHEDULES: dict[Schedule, Callable[[Training, int, float], float]] = {
    "step": _step,
    "cosine": _cosine,
    "constant": _constant,
}
