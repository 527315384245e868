"""One way to adapt a frozen backbone: a row of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter


class NoOptions(Settings):
    """Nothing to choose."""


@dataclass(frozen=True)
class Method:
    """What a method is, and how it is put around a backbone.

    Args:
        paper: where it was published, or what it is the baseline of.
        cost: what a domain adds to the backbone, in words.
        build: (backbone, number of classes of every domain, options) -> adapters.
        options: what may be chosen under [method] in a recipe.
        masked: whether it has switches, on which a sharing loss may act.
        has_budget: whether usage is pushed below the recipe's budget.
        sharing: the sharing loss that the method means, if it means one.
        together: whether domains learn something together, so that they cannot be trained one after the other.
        packable: whether a model file can hold it: kernel switches, norms and classifiers.
        individual: whether domains are trained one after the other, whatever the recipe's strategy.
    """

    summary: str
    paper: str
    cost: str
    build: Callable[[Backbone, Sequence[int], Any], list[Adapter]]
    options: type[Settings] = NoOptions
    masked: bool = False
    has_budget: bool = False
    sharing: str | None = None
    together: bool = False
    packable: bool = False
    individual: bool = False
