"""What a predictor needs of an engine; today torch computes, behind a seam that does not show it."""

from __future__ import annotations

from typing import Protocol

from prunus.bundle.bundle import Bundle
from prunus.errors import MissingExtraError
from prunus.images import Floats


class Engine(Protocol):
    """Computes logits of prepared images."""

    def logits(self, images: Floats, domain: str) -> Floats:
        """Classify (N, 3, S, S) images of one domain: (N, classes)."""


def make_engine(bundle: Bundle, device: str) -> Engine:
    """Choose what computes."""
    try:
        from prunus.runtime.torch_engine import TorchEngine  # noqa: PLC0415  # torch is optional
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "torch", "train", "running a model") from None
    return TorchEngine(bundle, device)
