"""The interface between a frozen network and a method: what a domain changes, what it learns and what that costs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from torch import Tensor, nn

from prunus.backbone.probe import Probe

Branch = Callable[[Tensor, Tensor], Tensor]  # a layer's input and output -> what the next layer sees
Entrance = Callable[[Tensor], Tensor]  # a layer's input -> what the layer sees


@dataclass(frozen=True)
class Cost:
    """What one domain adds to the backbone.

    Args:
        weights: 32-bit numbers used in convolutions.
        switches: bits.
        side: other 32-bit numbers, such as norms, which the literature omits from its tables.
        shared_weights: 32-bit numbers in convolutions that all domains share.
        macs: multiply-accumulates of its branches for one image.
        masks: the weights in use by convolution, broadcastable to them (default: all).
        owned: convolutions whose frozen weights are not read.
    """

    weights: int = 0
    switches: int = 0
    side: int = 0
    shared_weights: int = 0
    macs: int = 0
    masks: Mapping[str, Tensor] = field(default_factory=dict)
    owned: frozenset[str] = frozenset()


class Adapter(nn.Module):
    """What every domain may change in a frozen network; the base class changes nothing."""

    own_norms = False  # whether every domain has its own norms, whose statistics may then be updated

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors with which a domain replaces the backbone's, by name.

        Args:
            frozen: the backbone's parameters, as changed by the adapters before this one.
        """
        return {}

    def branches(self, domain: int) -> dict[str, Branch]:
        """Return what a domain computes in parallel to layers, by layer name."""
        return {}

    def entrances(self, domain: int) -> dict[str, Entrance]:
        """Return what a domain does to the inputs of layers, by layer name."""
        return {}

    def computing(self) -> AbstractContextManager[object]:
        """Return a context manager that is active during a forward pass."""
        return nullcontext()

    def loss(self, domain: int, logits: Tensor, labels: Tensor) -> Tensor | None:
        """Return what the method adds to the mean loss of the last training batch."""
        return None

    def adam_rows(self) -> list[nn.Parameter]:
        """Return the parameters that Adam learns, with one row per domain; SGD learns all others."""
        return []

    def rates(self) -> dict[nn.Parameter, float]:
        """Return the parameters that learn at a rate of their own; the recipe's schedule scales it all the same."""
        return {}

    def move_to(self, position: float, epochs: int) -> None:
        """Prepare for a step of a run of so many epochs; `position` counts the epochs before it."""

    def stop(self, domain: int) -> str | None:
        """Return the layer after which a domain exits the network, if it does."""
        return None

    def cost(self, domain: int, run: Probe) -> Cost:
        """Count what a domain adds; `run` lists the layers it runs through."""
        return Cost()


class LeavesEarly(Exception):  # noqa: N818  # not an error: a branch exits with its logits
    """Raised with the logits of a domain that skips the remaining layers."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__("a branch has exited the network")
        self.logits = logits
