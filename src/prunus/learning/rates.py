"""What changes over a run: the factor by which a step scales the learning rates, and when rounding begins."""

import math
from collections.abc import Callable

from prunus.config import Schedule, Training

ROUNDED = 0.2  # share of training that rounds to 8 bits, if it is asked for; at least one epoch


def rate_factor(training: Training, position: float) -> float:
    """Return the factor of all learning rates at a step; `position` counts the epochs before it."""
    if position < training.warmup_epochs:
        return position / training.warmup_epochs
    return SCHEDULES[training.schedule](training, position)


def rounding_start(training: Training, until: float) -> float:
    """Return the epochs before the first step that rounds to 8 bits.

    Args:
        until: share of training after which the pool of kernels stays as it is.
    """
    epochs = training.num_epochs
    return max(until * epochs, epochs - max(1.0, ROUNDED * epochs))


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
