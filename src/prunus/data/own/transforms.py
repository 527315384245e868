"""The transform that a program passes to training, with randomness that belongs to an image."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import Tensor

from prunus.errors import RecipeError, TrainingError

OwnTransform = Callable[[Tensor], Tensor]  # of one image, bytes in and bytes out

_TRANSFORM: ContextVar[OwnTransform | None] = ContextVar("passed_transform", default=None)


@contextmanager
def passing_transform(transform: OwnTransform | None) -> Iterator[None]:
    """Let a transform be found until the end of a call."""
    if transform is not None and not callable(transform):
        raise RecipeError(f"transform must be a function of an image, got {type(transform).__name__}")
    token = _TRANSFORM.set(transform)
    try:
        yield
    finally:
        _TRANSFORM.reset(token)


def passed_transform() -> OwnTransform:
    """Return the transform that was passed, as one that draws the same for the same seed of torch."""
    transform = _TRANSFORM.get()
    if transform is None:
        raise TrainingError(
            'training.augment has "python", but no transform was passed; '
            "in Python pass transform=FUNCTION, the same one as when the run began"
        )

    def apply(image: Tensor) -> Tensor:
        with _seeded(int(torch.randint(2**31, ()))):  # torch itself has the seed of the image already
            result = transform(image.clone())
        if not isinstance(result, Tensor) or result.dtype != torch.uint8 or result.shape != image.shape:
            what = f"{result.dtype} {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
            raise TrainingError(
                f"transform returned {what}; expected a tensor like the image it gets, "
                f"torch.uint8 {tuple(image.shape)}: Prunus normalizes and resizes itself"
            )
        return result

    return apply


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the generators of Python and numpy, from which some transforms draw, and restore them."""
    states = random.getstate(), np.random.get_state()  # the global one
    random.seed(seed)
    np.random.seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
