"""The seam between a frozen network and a method: what a domain changes in it, what it learns, what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from torch import Tensor, nn

from prunus.backbone.probe import Probe

Branch = Callable[[Tensor, Tensor], Tensor]  # a layer's input and output -> what the next layer sees


@dataclass(frozen=True)
class Cost:
    """What one domain pays for an adapter beside the backbone it reads.

    Args:
        weights: numbers of 32 bits that take part in convolutions.
        switches: bits.
        side: other numbers of 32 bits, such as norms, which the literature leaves out of its tables.
        shared_weights: numbers of 32 bits in convolutions that all domains keep together.
        macs: of its branches, for one image.
        masks: convolution -> which of its weights are in use, broadcastable to them; all where left out.
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
    """What a method lets every domain change in a frozen network; by itself nothing."""

    own_norms = False  # whether every domain has its own norms, so that their statistics may be learned

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Give the tensors that a domain puts in the place of the backbone's, by their names."""
        return {}

    def branches(self, domain: int) -> dict[str, Branch]:
        """Give what a domain computes beside a layer, by the layer's name."""
        return {}

    def computing(self) -> AbstractContextManager[object]:
        """Give what a forward pass is to be computed within."""
        return nullcontext()

    def loss(self, domain: int, logits: Tensor, labels: Tensor) -> Tensor | None:
        """Give what the method adds to the mean loss of the batch that was just seen in training."""
        return None

    def adam_rows(self) -> list[nn.Parameter]:
        """List the parameters that Adam learns, each with a row per domain; SGD learns the others."""
        return []

    def stop(self, domain: int) -> str | None:
        """Name the layer after which a domain leaves the network, if it does."""
        return None

    def cost(self, domain: int, run: Probe) -> Cost:
        """Count what a domain pays; `run` has the layers that it runs through."""
        return Cost()


class LeavesEarly(Exception):  # noqa: N818  # not an error: a branch leaves the network with its logits
    """Carries the logits of a domain that needs no further layer."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__("a branch has left the network")
        self.logits = logits
