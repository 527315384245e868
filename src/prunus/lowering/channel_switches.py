"""Lay out a switch for every channel of a network that can be removed from its graph."""

from collections.abc import Mapping

import torch
from torch import Tensor

from prunus.arrays import Integers
from prunus.backbone.zoo import Backbone
from prunus.errors import NoFileError, RecipeError
from prunus.granularity import CHANNEL
from prunus.graph.channels import HELD, find_units
from prunus.lowering.build import build_graph
from prunus.lowering.channel_layout import ChannelLayout
from prunus.masks.gated_norms import gated_layout
from prunus.masks.layout import SwitchLayout, convolutions
from prunus.masks.network import MultiDomainNet


def network_layout(backbone: Backbone, granularity: str) -> SwitchLayout:
    """Lay out the switches of a backbone."""
    if granularity != CHANNEL:
        return gated_layout(backbone, granularity)
    network = backbone.network
    was_learned = [parameter.requires_grad for parameter in network.parameters()]
    plain = MultiDomainNet(network, backbone.probe.num_features, {"": ["", ""]}, [], backbone.preprocess.size)
    try:
        graph = build_graph(plain.eval())
    except NoFileError as error:
        raise RecipeError(
            f'granularity = "{CHANNEL}" needs a network that a model file can hold, but {error.reason}; '
            'choose another granularity, such as "filter", or another network'
        ) from None
    for parameter, is_learned in zip(network.parameters(), was_learned, strict=True):
        parameter.requires_grad_(is_learned)
    units = find_units(graph.graph, graph.image_size)
    convs = convolutions(network)
    return ChannelLayout(
        convs,
        CHANNEL,
        positions=backbone.probe.positions,
        outputs={conv.name: _switches(units.outputs, conv.name, conv.out_channels) for conv in convs},
        inputs={conv.name: _switches(units.inputs, conv.name, conv.in_channels) for conv in convs},
        counts=tuple(units.sizes.values()),
    )


def _switches(units: Mapping[str, Integers], name: str, count: int) -> Tensor:
    """Return the switch of each channel of a layer; layers that never run have none."""
    return torch.from_numpy(units[name]) if name in units else torch.full((count,), HELD)
