"""One method: a row of the table of methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter


class NoOptions(Settings):
    """No options."""


@dataclass(frozen=True)
class Method:
    """A method that adapts a frozen backbone to domains.

    Args:
        paper: its publication, or its role as a baseline.
        cost: what a domain adds to the backbone, in words.
        build: (backbone, number of classes of every domain, options) -> adapters.
        options: the keys of [method] in a recipe.
        masked: whether it has switches that a sharing loss can act on.
        has_budget: whether the recipe's budget limits the usage of a domain.
        keeps_budget: whether it ends within every limit of the budget, by construction; others know kernels only.
        sharing: its sharing loss, if it has one.
        together: whether domains share learned parameters and therefore cannot be trained one after another.
        packable: whether a model file can hold it, with kernel switches, norms and classifiers only.
        holds_out: whether it needs images that are held out of training; `compare` then does so.
        weight_lr: the rate of its weights that `compare` uses where a recipe leaves it open: the authors', if known.
        individual: whether domains are always trained one after another, regardless of the recipe's strategy.
    """

    summary: str
    paper: str
    cost: str
    build: Callable[[Backbone, Sequence[int], Any], list[Adapter]]
    options: type[Settings] = NoOptions
    masked: bool = False
    has_budget: bool = False
    keeps_budget: bool = False
    sharing: str | None = None
    together: bool = False
    packable: bool = False
    holds_out: bool = False
    weight_lr: float | None = None
    individual: bool = False
