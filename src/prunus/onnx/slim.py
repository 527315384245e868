"""Make one domain's network smaller, with the same answers: channels that this domain does not need are left out.

Legend: O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from prunus.arrays import Doubles, Floats
from prunus.graph.operations import AppendZeros, Conv, Operation
from prunus.onnx.channels import ChannelFlow
from prunus.onnx.network import DomainNetwork

Cut = tuple[Operation, dict[str, Floats]]


def slim(network: DomainNetwork) -> DomainNetwork:
    """Leave out unread and constant channels; the constants live on in what read them."""
    flow = ChannelFlow(network)
    cuts = [
        CUTS.get(operation.op, _sliced)(flow, number, operation, tensors)
        for number, (operation, tensors) in enumerate(zip(network.graph, network.tensors, strict=True))
    ]
    _, height, width = network.shapes[-1]
    last, kept = flow.values[-1], flow.kept(len(cuts))
    head_FC = network.head_weight.reshape(len(network.head_bias), len(last.ids), height * width)
    left_out = _without(last.values, kept)
    return replace(
        network,
        graph=tuple(operation for operation, _ in cuts),
        tensors=[tensors for _, tensors in cuts],
        head_weight=np.ascontiguousarray(head_FC[:, kept].reshape(len(head_FC), -1)),
        head_bias=(network.head_bias + head_FC.astype(np.float64).sum(axis=2) @ left_out).astype(np.float32),
    )


def _convolution(flow: ChannelFlow, number: int, conv: Conv, tensors: dict[str, Floats]) -> Cut:
    outputs, inputs = flow.kept(number + 1), flow.kept(conv.inputs[0])
    found = {role: tensor[outputs] for role, tensor in tensors.items()}
    if conv.groups > 1:
        groups = len(outputs) * conv.groups // conv.channels[0]
        return conv.model_copy(update={"channels": (len(outputs), conv.channels[1]), "groups": groups}), found
    constants = _without(flow.values[conv.inputs[0]].values, inputs)
    ones = np.einsum("oihw,i->ohw", found["weight"].astype(np.float64), constants)
    if any(conv.pads):  # constants end at the border of the image
        found |= _added(found, "ones", ones)
    else:
        found |= _added(found, "bias", ones.sum(axis=(1, 2)) * found.get("scale", np.ones(1)))
    found["weight"] = np.ascontiguousarray(found["weight"][:, inputs])
    return conv.model_copy(update={"channels": (len(outputs), len(inputs))}), found


def _added(tensors: dict[str, Floats], role: str, more: Doubles) -> dict[str, Floats]:
    return {role: (tensors[role] + more if role in tensors else more).astype(np.float32)} if more.any() else {}


def _append_zeros(flow: ChannelFlow, number: int, operation: AppendZeros, tensors: dict[str, Floats]) -> Cut:
    count = len(flow.kept(number + 1)) - len(flow.kept(operation.inputs[0]))
    return operation.model_copy(update={"count": count}), tensors


def _sliced(flow: ChannelFlow, number: int, operation: Operation, tensors: dict[str, Floats]) -> Cut:
    kept = flow.kept(number + 1)
    return operation, {role: tensor[kept] for role, tensor in tensors.items()}


def _without(values: Doubles, kept: list[int]) -> Doubles:
    """Leave the constants of channels that go; those of channels that stay are computed."""
    left_out = values.copy()
    left_out[kept] = 0
    return left_out


CUTS: dict[str, Callable[[ChannelFlow, int, Any, dict[str, Floats]], Cut]] = {
    "conv": _convolution,
    "append_zeros": _append_zeros,
}
