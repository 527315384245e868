"""Decide what stays of a network, as plain data; nothing is touched."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn

from prunus.errors import BackboneError
from prunus.files import write_json
from prunus.lowering.channels import ChannelFlow
from prunus.lowering.operations import Kind
from prunus.lowering.packable import is_packable
from prunus.lowering.trace import TracedNetwork, trace
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet


@dataclass(frozen=True)
class LayerPlan:
    """What stays of one convolution, and why the rest goes.

    Args:
        unread: output channels that no domain reads.
        constant: output channels that are read, but constant in every domain; what reads them gets the constant.
        held: output channels that are constant and stay all the same, because they meet an operation that cannot be
            followed channel by channel.
    """

    name: str
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    num_outputs: int
    num_inputs: int
    unread: int
    constant: int
    held: int
    kernels: int
    num_kernels: int


@dataclass(frozen=True)
class PrunePlan:
    """What stays: channels of every result of the network's graph, and the same told layer by layer."""

    layers: tuple[LayerPlan, ...]
    channels: dict[str, tuple[int, ...]]
    features: tuple[int, ...]

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        write_json(Path(path), asdict(self))

    def __str__(self) -> str:
        rows = [
            f"{'layer':40} {'outputs':>13} {'unread':>7} {'constant':>9} {'held':>5} {'inputs':>13} {'kernels':>17}"
        ]
        for layer in self.layers:
            outputs, inputs = f"{len(layer.outputs)} / {layer.num_outputs}", f"{len(layer.inputs)} / {layer.num_inputs}"
            why = f"{layer.unread:>7} {layer.constant:>9} {layer.held:>5}"
            kernels = f"{layer.kernels} / {layer.num_kernels}"
            rows.append(f"{layer.name:40} {outputs:>13} {why} {inputs:>13} {kernels:>17}")
        return "\n".join(rows)


def load_plan(path: str | Path) -> PrunePlan:
    """Read a plan that was saved."""
    try:
        content: dict[str, Any] = json.loads(Path(path).read_text())
        layers = tuple(
            LayerPlan(**each | {"outputs": tuple(each["outputs"]), "inputs": tuple(each["inputs"])})
            for each in content["layers"]
        )
        channels = {name: tuple(kept) for name, kept in content["channels"].items()}
        return PrunePlan(layers, channels, tuple(content["features"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackboneError(f"{path} is not a plan: {error}") from None


def follow(net: MultiDomainNet) -> tuple[TracedNetwork, ChannelFlow]:
    """Trace a network and follow its channels in every domain."""
    if not is_packable(net):
        raise BackboneError(
            "channels can be followed where domains differ in kernel switches and norms only; this network's method "
            "changes more, or it has been shrunk already"
        )
    modes = {module: module.training for module in net.network.modules()}
    try:
        net.network.eval()  # what is traced and computed here must be what will be run
        traced = trace(net.network, net.image_size)
        with torch.no_grad():
            return traced, ChannelFlow(traced, [net.tensors(domain) for domain in net.domains])
    finally:
        for module, mode in modes.items():
            module.training = mode


def on_cpu(net: MultiDomainNet) -> MultiDomainNet:
    """Give the network, or a copy where it lies on another device: channels are followed on the CPU."""
    return net if net.device.type == "cpu" else copy.deepcopy(net).cpu()


def plan_pruning(net: MultiDomainNet) -> PrunePlan:
    """Find the kernels and channels that no domain needs: unread ones, and constants that can be folded away."""
    net = on_cpu(net)
    return make_plan(net, *follow(net))


def make_plan(net: MultiDomainNet, traced: TracedNetwork, flow: ChannelFlow) -> PrunePlan:
    """Write down what was found about a network's channels."""
    channels = {name: tuple(flow.kept(name)) for name in flow.results}
    output = next(node for node in traced.module.graph.nodes if node.op == "output")
    features = channels[output.all_input_nodes[0].name]
    return PrunePlan(_layers(net.network, traced, flow, channels), channels, features)


def _layers(
    network: nn.Module, traced: TracedNetwork, flow: ChannelFlow, channels: dict[str, tuple[int, ...]]
) -> tuple[LayerPlan, ...]:
    nodes = {str(node.target): node for node in traced.module.graph.nodes if node.op == "call_module"}
    found = []
    for conv in convolutions(network):
        node = nodes.get(conv.name)
        if node is None:
            continue  # a layer that the network has, but does not run
        result, outputs = flow.results.get(node.name), channels.get(node.name, tuple(range(conv.out_channels)))
        inputs = channels.get(node.all_input_nodes[0].name, ())
        gone = sorted(set(range(conv.out_channels)) - set(outputs))
        unread = 0 if result is None else int((~result.read.any(0))[gone].sum())
        found.append(
            LayerPlan(
                conv.name,
                outputs,
                inputs,
                conv.out_channels,
                len(flow.results[node.all_input_nodes[0].name].ids),
                unread,
                len(gone) - unread,
                0 if result is None else _held(flow, node, outputs),
                _live_kernels(flow, node, outputs, inputs),
                conv.num_kernels,
            )
        )
    return tuple(found)


def _held(flow: ChannelFlow, node: fx.Node, outputs: Sequence[int]) -> int:
    constant = flow.results[node.name].constant | ~flow.live[str(node.target)].any(2)
    return int((constant.all(0) & flow.held(node.name))[list(outputs)].sum())


def _live_kernels(flow: ChannelFlow, node: fx.Node, outputs: Sequence[int], inputs: Sequence[int]) -> int:
    """Count the kernels that some domain uses for an output it reads, of an input that stays."""
    live_DOI = flow.live[str(node.target)]
    if node.name in flow.results and flow.kinds[node.name] is Kind.CONV:
        live_DOI = live_DOI & flow.results[node.name].read[:, :, None]
    used_OI = live_DOI.any(0)[list(outputs)]
    conv = flow.traced.layer(node)
    grouped = isinstance(conv, nn.Conv2d) and conv.groups > 1
    return int((used_OI if grouped else used_OI[:, list(inputs)]).sum())
