"""A budget and what a model takes of it: as measured, and as planned before training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prunus.amounts import write_bytes, write_count
from prunus.arrays import DType
from prunus.measure.cost import CostReport
from prunus.measure.result import Result, Share

TOGETHER = "all domains together"
ROUNDING = 1e-9  # 0.29 * 100 is a little less than 29
Unit = Literal["kernels", "weights", "bytes", "macs"]
# how to write an amount, and what follows it
WRITTEN: dict[Unit, tuple[Callable[[int], str], str]] = {
    "kernels": (lambda count: f"{count:,}", " kernels"),
    "weights": (lambda count: f"{count:,}", " weights"),
    "bytes": (write_bytes, ""),
    "macs": (write_count, " MACs"),
}


def write_amount(name: Unit, amount: int) -> str:
    """Write an amount with its unit, as in "18,828 kernels" or "1 MB"."""
    write, noun = WRITTEN[name]
    return f"{write(amount)}{noun.removesuffix('s') if amount == 1 else noun}"


class LimitUse(Result):
    """One limit of a budget and what is used of it.

    Args:
        name: key of the recipe's budget.
        domain: whose limit it is; None for a limit of all domains together.
    """

    name: Unit
    domain: str | None = None
    used: int
    limit: int
    kept: bool

    @classmethod
    def of(cls, name: Unit, used: int, limit: int, domain: str | None = None) -> LimitUse:
        """Compare what is used with the limit."""
        return cls(name=name, domain=domain, used=used, limit=limit, kept=used <= limit)

    @property
    def share(self) -> float:
        """The share of the limit that is used."""
        return self.used / max(self.limit, 1)  # of a share that is less than one kernel

    def __str__(self) -> str:
        """Write what is used and what is allowed, as in "18,828 of 18,828 kernels"."""
        write, noun = WRITTEN[self.name]
        used, limit = write(self.used), write(self.limit)
        if used == limit and self.used != self.limit:  # rounding must not hide by how much a limit is missed
            used, limit, noun = f"{self.used:,}", f"{self.limit:,}", noun or f" {self.name}"
        return f"{used} of {limit}{noun}" + (f" for domain {self.domain!r}" if self.domain else "")


def in_words(limits: Iterable[LimitUse]) -> str:
    """Write what is used of every limit; of domains with the same limit, those above it or the one that uses most."""
    named: list[LimitUse] = []
    for lines in _by_unit(limits):
        over = [limit for limit in lines if not limit.kept]
        named += lines if _differ(lines) else over or sorted(lines, key=lambda limit: limit.share)[-1:]
    return ", ".join(map(str, named))


def limits_in_words(limits: Iterable[LimitUse]) -> str:
    """Write every limit without what is used of it, as in "1 MB, 2 M MACs"; one that domains have in common, once."""
    words: list[str] = []
    for lines in _by_unit(limits):
        is_common = len(lines) > 1 and not _differ(lines)
        for limit in lines[:1] if is_common else lines:
            owner = f" for {limit.domain}" if limit.domain and not is_common else ""
            words.append(write_amount(limit.name, limit.limit) + owner)
    return ", ".join(words)


def _by_unit(limits: Iterable[LimitUse]) -> list[list[LimitUse]]:
    lines = list(limits)
    groups = ([limit for limit in lines if limit.name == name] for name in WRITTEN)
    return [group for group in groups if group]


def _differ(lines: Sequence[LimitUse]) -> bool:
    return len({limit.limit for limit in lines}) > 1


@dataclass(frozen=True)
class KernelShare:
    """The share of the kernels that each domain may use and, if `of_union`, all domains together.

    Args:
        per: what the share of a domain is of: the "network", each "layer" or the "macs".

    This is the budget of every method that has a penalty instead of limits, and the only place that decides whether it
    is kept.
    """

    share: float
    of_union: bool
    per: str = "network"

    @classmethod
    def of(cls, share: float, sharing: str | None, per: object = "network") -> KernelShare:
        """Return the budget of a method with a sharing loss, or without one; only the union loss limits the union."""
        return cls(share, sharing == "union", str(per))

    def limits(self, costs: CostReport) -> tuple[LimitUse, ...]:
        """Compare a counted model with the budget: each domain, then all of them together where that is limited."""
        lines = [LIMITED[self.per](self.share, costs, index) for index in range(len(costs.domains))]
        if self.of_union:
            most = whole_share(self.share, costs.num_kernels())
            lines.append(LimitUse.of("kernels", sum(layer.union for layer in costs.layers), most))
        return tuple(lines)

    def exceeded(self, usages: Mapping[str, float], union: float) -> dict[str, float]:
        """Return what uses more than its share, where only shares are known: in results of earlier versions."""
        counted = {**usages, TOGETHER: union} if self.of_union else usages
        return {name: usage for name, usage in counted.items() if usage > self.share + ROUNDING}


def whole_share(share: float, total: int) -> int:
    """Return the largest whole number within a share of a total."""
    return int(share * total + ROUNDING)


def _of_network(share: float, costs: CostReport, index: int) -> LimitUse:
    used = sum(layer.used[index] for layer in costs.layers)
    return LimitUse.of("kernels", used, whole_share(share, costs.num_kernels()), costs.domains[index])


def _of_fullest_layer(share: float, costs: CostReport, index: int) -> LimitUse:
    """Name the layer that takes most of its share, for all layers of a domain."""
    lines = [
        LimitUse.of("kernels", layer.used[index], whole_share(share, layer.num_kernels), costs.domains[index])
        for layer in costs.layers
    ]
    return max(lines, key=lambda line: line.share)


def _of_macs(share: float, costs: CostReport, index: int) -> LimitUse:
    domain = costs.domains[index]
    return LimitUse.of("macs", costs.macs(domain), whole_share(share, costs.dense_macs()), domain)


LIMITED: dict[str, Callable[[float, CostReport, int], LimitUse]] = {
    "network": _of_network,
    "layer": _of_fullest_layer,
    "macs": _of_macs,
}


class PlannedDomain(Result):
    """What a recipe says about one domain.

    Args:
        images: to train on.
        macs: the most multiply-accumulates of one image; the domain may use fewer kernels than it is allowed to.
        macs_ratio: relative to the dense backbone.
    """

    classes: int
    images: int
    macs: int
    macs_ratio: Share


class Plan(Result):
    """What a model will hold, weigh and compute, as far as it is known before training.

    Args:
        is_exact: whether the method ends within every limit; if not, kernels, weights and MACs are the unpruned ones.
        kernels: 2-D kernels that any domain uses.
        weights: of those kernels.
        model_bytes: size of the model file; None where training decides it, or no file can hold the network.
        bytes_by_part: adds up to `model_bytes`.
        limits: what the planned model takes of every limit.
        binding: name of the limit that is used most; None where the whole network is within all limits.
        steps: of all epochs.
        notes: sentences for the user.
        source: name of the domain that the backbone was pretrained on; None if it is not one of the domains.
    """

    added = ("source",)

    backbone: str
    method: str
    dtype: DType
    is_exact: bool
    domains: dict[str, PlannedDomain]
    kernels: int
    weights: int
    model_bytes: int | None
    bytes_by_part: dict[str, int]
    dense_kernels: int
    dense_weights: int
    dense_bytes: int
    dense_macs: int
    limits: tuple[LimitUse, ...]
    binding: Unit | None
    epochs: int
    steps: int
    notes: tuple[str, ...]
    source: str | None = None
