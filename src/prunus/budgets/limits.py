"""The limits of a model as whole numbers, and what a model uses of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prunus.amounts import write_bytes, write_count
from prunus.config import Budget
from prunus.errors import RecipeError, UnknownNameError
from prunus.measure.cost import CostReport

ROUNDING = 1e-9  # 0.29 * 100 is a little less than 29


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
class Line:
    """One limit and what is used of it, for a reader.

    Args:
        name: key of the recipe's budget.
        domain: for MACs only.
    """

    name: str
    used: int
    limit: int
    domain: str | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the model stays within this limit."""
        return self.used <= self.limit

    def __str__(self) -> str:
        """Write what is used and what is allowed."""
        write = WRITTEN[self.name]
        of = f" for domain {self.domain!r}" if self.domain else ""
        return f"{write(self.used)} of {write(self.limit)}{of}"


WRITTEN: dict[str, Callable[[float], str]] = {
    "kernels": lambda count: f"{count:,} kernels",
    "weights": lambda count: f"{count:,} weights",
    "bytes": write_bytes,
    "macs": lambda count: f"{write_count(count)} MACs",
}


@dataclass(frozen=True)
class Limits:
    """The most that a model may take; None is no limit.

    Args:
        macs: by domain.
    """

    domains: tuple[str, ...]
    kernels: int | None = None
    weights: int | None = None
    bytes: int | None = None
    macs: tuple[int | None, ...] | None = None

    def lines(self, usage: Usage) -> Iterator[Line]:
        """Compare what a model takes with every limit."""
        if self.kernels is not None:
            yield Line("kernels", usage.kernels, self.kernels)
        if self.weights is not None:
            yield Line("weights", usage.weights, self.weights)
        if self.bytes is not None and usage.bytes is not None:
            yield Line("bytes", usage.bytes, self.bytes)
        for domain, used, limit in zip(self.domains, usage.macs, self.macs or (), strict=False):
            if limit is not None:
                yield Line("macs", used, limit, domain)

    def are_kept(self, usage: Usage) -> bool:
        """Return whether a model stays within all limits."""
        return all(line.is_kept for line in self.lines(usage))

    def share_used(self, usage: Usage) -> float:
        """Return how much of its tightest limit a model takes."""
        return max(line.used / line.limit for line in self.lines(usage))


def limits_of(budget: Budget, domains: Sequence[str], dense: CostReport) -> Limits:
    """Turn a recipe's budget into whole numbers for a network; `dense` counts all of it."""
    kernels = None if budget.kernels is None else int(budget.kernels * dense.num_kernels() + ROUNDING)
    weights = None if budget.weights is None else int(budget.weights * dense.dense_weights() + ROUNDING)
    for name, count in (("kernels", kernels), ("weights", weights)):
        if count == 0:
            total = dense.num_kernels() if name == "kernels" else dense.dense_weights()
            raise RecipeError(f"budget.{name} = {getattr(budget, name)} is less than one of the network's {total:,}")
    return Limits(tuple(domains), kernels, weights, budget.bytes, _macs(budget, domains))


def _macs(budget: Budget, domains: Sequence[str]) -> tuple[int | None, ...] | None:
    macs = budget.macs
    if macs is None or isinstance(macs, int):
        return None if macs is None else (macs,) * len(domains)
    for name in macs:
        if name not in domains:
            raise UnknownNameError("domain of budget.macs", name, domains)
    return tuple(macs.get(domain) for domain in domains)
