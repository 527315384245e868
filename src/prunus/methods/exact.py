"""The method of Prunus: one shared network, pruned to exactly the budget while all domains train it.

All domains train one copy of the convolutions and linear layers, and of position embeddings and class tokens. The pool
of kernels that they may use shrinks on a schedule until the model fits the budget (`budgets/keeper.py`). Each domain
switches kernels inside the pool on and off, and has its own norms and head.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.granularity import Granularity
from prunus.lowering.channel_switches import network_layout
from prunus.masks.adapter import Adapter
from prunus.masks.gated_norms import GatedNorms
from prunus.masks.layer_copies import SharedConvolutions
from prunus.masks.pool import PooledSwitches
from prunus.methods.method import Method


class Options(Settings):
    """What is trained, and when the pool reaches its final size."""

    granularity: Granularity = Field(
        default="auto",
        description="unit of a switch: kernel, 1x4, filter, input_channel or channel; auto: 1x4 if most weights are in "
        "linear layers, else kernel",
    )
    weights: Literal["trained", "frozen"] = Field(
        default="trained", description="trained: all domains train one copy of the kernels; frozen: the backbone's"
    )
    until: float = Field(default=0.5, gt=0, le=1, description="share of training after which the pool stays as it is")


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Share trained kernels, switch them per domain inside a pool, and add norms per domain."""
    layout = network_layout(backbone, options.granularity)
    pool = PooledSwitches(layout, len(classes))
    norms = GatedNorms(backbone.network, len(classes), pool)
    if options.weights == "frozen":
        if backbone.kept is not None:  # a model file has no other kernels
            pool.restrict(layout.touching(backbone.kept).expand_as(pool.open_DM))
        return [pool, norms]
    return [SharedConvolutions(backbone.network, [conv.name for conv in layout.convs], backbone.kept), pool, norms]


METHOD = Method(
    summary="one shared network, pruned to exactly the budget while all domains train it",
    paper="Prunus",
    cost="1 bit per kernel",
    build=build,
    options=Options,
    masked=True,
    has_budget=True,
    keeps_budget=True,
    together=True,
    packable=True,
    weight_lr=0.04,
)
