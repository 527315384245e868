"""Learning rate schedules: the factor by which a step scales the recipe's learning rates."""

import math
from collections.abc import Callable

from prunus.config import Schedule, Training


def rate_factor(training: Training, position: float) -> float:
    """Return the factor of all learning rates at a step; `position` counts the epochs before it."""
    if position < training.warmup_epochs:
        return position / training.warmup_epochs
    return SCHEDULES[training.schedule](training, position)


def _step(training: Training, position: float) -> float:
    drops = sum(int(position) >= round(share * training.num_epochs) for share in training.lr_drops)
    return float(training.lr_drop_factor**drops)


def _cosine(training: Training, position: float) -> float:
    done = (position - training.warmup_epochs) / (training.num_epochs - training.warmup_epochs)
    return (1 + math.cos(math.pi * done)) / 2


def _constant(_training: Training, _position: float) -> float:
    return 1.0


SCHEDULES: dict[Schedule, Callable[[Training, float], float]] = {
    "step": _step,
    "cosine": _cosine,
    "constant": _constant,
}
