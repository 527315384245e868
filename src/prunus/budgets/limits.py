"""The limits of a model as whole numbers, and what a model uses of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prunus.config import Budget
from prunus.errors import UnknownNameError
from prunus.measure.budget import LimitUse, whole_share
from prunus.measure.cost import CostReport


@dataclass(frozen=True)
class Usage:
    """What a finished model takes.

    Args:
        kernels: 2-D kernels that any domain uses.
        weights: of those kernels.
        bytes: of the model file; None where no file can hold the network.
        macs: multiply-accumulates of one image, by domain.
    """

    kernels: int
    weights: int
    bytes: int | None
    macs: tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """The most that a model may take; None is no limit.

    Args:
        macs: by domain.
        fixed_macs: the part of a domain's MACs that no switch changes: the products of attention.
    """

    domains: tuple[str, ...]
    kernels: int | None = None
    weights: int | None = None
    bytes: int | None = None
    macs: tuple[int | None, ...] | None = None
    fixed_macs: int = 0

    def lines(self, usage: Usage) -> Iterator[LimitUse]:
        """Compare what a model takes with every limit."""
        if self.kernels is not None:
            yield LimitUse.of("kernels", usage.kernels, self.kernels)
        if self.weights is not None:
            yield LimitUse.of("weights", usage.weights, self.weights)
        if self.bytes is not None and usage.bytes is not None:
            yield LimitUse.of("bytes", usage.bytes, self.bytes)
        for domain, used, limit in zip(self.domains, usage.macs, self.macs or (), strict=False):
            if limit is not None:
                yield LimitUse.of("macs", used, limit, domain)

    def are_kept(self, usage: Usage) -> bool:
        """Return whether a model stays within all limits."""
        return all(line.kept for line in self.lines(usage))

    def share_used(self, usage: Usage) -> float:
        """Return how much of its tightest limit a model takes."""
        return max(line.share for line in self.lines(usage))


def limits_of(budget: Budget, domains: Sequence[str], dense: CostReport) -> Limits:
    """Turn a recipe's budget into whole numbers for a network; `dense` counts all of it."""
    kernels = None if budget.kernels is None else whole_share(budget.kernels, dense.num_kernels())
    weights = None if budget.weights is None else whole_share(budget.weights, dense.dense_weights())
    return Limits(tuple(domains), kernels, weights, budget.bytes, _macs(budget, domains), dense.product_macs)


def _macs(budget: Budget, domains: Sequence[str]) -> tuple[int | None, ...] | None:
    macs = budget.macs
    if macs is None or isinstance(macs, int):
        return None if macs is None else (macs,) * len(domains)
    for name in macs:
        if name not in domains:
            raise UnknownNameError("domain of budget.macs", name, domains)
    return tuple(macs.get(domain) for domain in domains)


def cost_usage(costs: CostReport, size: int | None) -> Usage:
    """Return what a counted model takes, with the size of its file."""
    return Usage(
        kernels=sum(layer.union for layer in costs.layers),
        weights=sum(layer.union * layer.kernel_area for layer in costs.layers),
        bytes=size,
        macs=tuple(costs.macs(domain) for domain in costs.domains),
    )
