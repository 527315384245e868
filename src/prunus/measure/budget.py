"""A budget and what a model takes of it: as measured, and as planned before training."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from prunus.amounts import write_bytes, write_count
from prunus.arrays import DType
from prunus.measure.result import Result, Share

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
    """Write what is used of every limit; of several domains, the one that uses most of its own."""
    most = {limit.name: limit for limit in sorted(limits, key=lambda limit: limit.share)}
    return ", ".join(str(most[name]) for name in WRITTEN if name in most)


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
