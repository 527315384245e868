"""BA² and the budget-aware methods: one switch per 2-D kernel within a budget, with or without a sharing loss.

Berriel et al., ICCV 2019 (BA²); dos Santos et al., 2023 (intersection, union and Jaccard).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.granularity import Granularity
from prunus.lowering.channel_switches import network_layout
from prunus.masks.adapter import Adapter
from prunus.masks.gated_norms import GatedNorms
from prunus.masks.switches import Switches
from prunus.methods.method import Method


class Options(Settings):
    """The unit that one switch turns on or off, and what the budget is a share of."""

    granularity: Granularity = Field(
        default="auto",
        description="unit of a switch: kernel, 1x4, filter, input_channel or channel; auto: 1x4 if most weights are in "
        "linear layers, else kernel",
    )
    budget_per: Literal["network", "layer", "macs"] = Field(
        default="network",
        description="a domain's budget is a share of all kernels, of the kernels of each layer, or of the MACs",
    )

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what earlier versions do without, unless it was set."""
        return {key: value for key, value in serialize(self).items() if key != "budget_per" or value != "network"}


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Multiply each unit by its switch, and add norms per domain."""
    switches = Switches(network_layout(backbone, options.granularity), len(classes))
    return [switches, GatedNorms(backbone.network, len(classes), switches)]


BA2 = Method(
    summary="kernel switches within a budget, independent per domain (BA²)",
    paper="Berriel et al., ICCV 2019",
    cost="1 bit per kernel",
    build=build,
    options=Options,
    masked=True,
    has_budget=True,
    packable=True,
)
BA2_INDIVIDUAL = replace(BA2, summary="BA² as published: domains are trained one after another", individual=True)

_BUDGET_AWARE = replace(BA2, paper="dos Santos et al., 2023", together=True)
UNION = replace(_BUDGET_AWARE, summary="BA² whose domains together stay within the budget", sharing="union")
INTERSECTION = replace(_BUDGET_AWARE, summary="BA² whose domains use common kernels", sharing="intersection")
JACCARD = replace(_BUDGET_AWARE, summary="BA² whose domains use the same kernels", sharing="jaccard")
