"""Follow every channel through a network: what is constant in a domain, what is read, what stands or falls together.

Forward, a channel of a result is constant in a domain where no live kernel feeds it; its value then comes from biases
and norms alone. Backward, a channel is read in a domain where some live kernel, or the features, depend on it. Results
that are added, multiplied or normalized channel by channel share their channels: one goes only where all go.

Legend: D = domains, C = channels of a result, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from prunus.lowering.operations import Kind, classify
from prunus.lowering.trace import TracedNetwork

DomainTensors = Mapping[str, Tensor]


@dataclass
class Channels:
    """The channels of one result."""

    ids: Tensor  # (C,) which channel variable each is
    constant: Tensor  # (D, C)
    value: Tensor  # (D, C) where constant, else 0
    read: Tensor  # (D, C)


class ChannelFlow:
    """What is known about every channel of a traced network."""

    def __init__(self, traced: TracedNetwork, domains: Sequence[DomainTensors]) -> None:
        self.traced, self.domains = traced, domains
        self.results: dict[str, Channels] = {}
        self.live: dict[str, Tensor] = {}  # convolution -> (D, O, I): kernels that are not all zeros
        self._parents: list[int] = []
        self._forced: set[int] = set()
        self.kinds: dict[str, Kind] = {}
        nodes = list(traced.module.graph.nodes)
        calls = [str(node.target) for node in nodes if node.op == "call_module"]
        self._repeated = {name for name in calls if calls.count(name) > 1 and _has_state(traced.module, name)}
        for node in nodes:
            self._measure(node)
            self.kinds[node.name] = self._kind(node)
            self._forward(node)
        for node in reversed(nodes):
            self._backward(node)
        self.kept_ids = self._keep()

    def kept(self, name: str) -> list[int]:
        """List the channels of a result that stay."""
        return [
            place for place, each in enumerate(self.results[name].ids.tolist()) if self._find(each) in self.kept_ids
        ]

    def held(self, name: str) -> Tensor:
        """Tell which channels of a result stay because they meet an operation that is not followed: (C,)."""
        forced = {self._find(each) for each in self._forced}
        return torch.tensor([self._find(each) in forced for each in self.results[name].ids.tolist()])

    def _forward(self, node: fx.Node) -> None:
        kind = self.kinds[node.name]
        steps: dict[Kind, Callable[[fx.Node], Channels | None]] = {
            Kind.CONV: self._convolve,
            Kind.CHANNELWISE: self._map,
            Kind.SPATIAL: self._pass_on,
            Kind.ADD: lambda node: self._combine(node, torch.add),
            Kind.MUL: lambda node: self._combine(node, torch.mul),
            Kind.CAT: self._concatenate,
            Kind.PAD: self._append,
            Kind.FLATTEN: self._flatten,
            Kind.OUTPUT: lambda _node: None,
            Kind.SIZE: lambda _node: None,
        }
        found = steps.get(kind, self._barrier)(node)
        if found is not None:
            self.results[node.name] = found

    def _kind(self, node: fx.Node) -> Kind:
        """Classify a node; one whose inputs are not followed channel by channel is opaque."""
        kind, inputs = classify(node, self.traced), node.all_input_nodes
        if kind in (Kind.OUTPUT, Kind.SIZE):
            return kind
        if kind is Kind.FLATTEN:  # to as many rows as there are images
            inputs = [each for each in inputs if self.kinds[each.name] is not Kind.SIZE]
        followed = bool(inputs) and all(each.name in self.results for each in inputs)
        repeated = node.op == "call_module" and str(node.target) in self._repeated
        if not followed or repeated or (kind in (Kind.ADD, Kind.MUL) and len(self._widths(inputs)) > 1):
            return Kind.OPAQUE
        return kind

    def _widths(self, nodes: Sequence[fx.Node]) -> set[int]:
        return {len(self.results[each.name].ids) for each in nodes}

    def _measure(self, node: fx.Node) -> None:
        """Note which kernels of a convolution are not all zeros, whatever else is known about it."""
        conv, name = self.traced.layer(node), str(node.target)
        if isinstance(conv, nn.Conv2d):
            weights = [tensors.get(f"{name}.weight", conv.weight).detach() for tensors in self.domains]
            self.live[name] = (torch.stack(weights) != 0).flatten(3).any(3)

    def _fresh(self, count: int) -> Tensor:
        first = len(self._parents)
        self._parents += range(first, first + count)
        return torch.arange(first, first + count)

    def _varying(self, ids: Tensor) -> Channels:
        nothing = torch.zeros(len(self.domains), len(ids), dtype=torch.bool)
        return Channels(ids, nothing, nothing.double(), nothing.clone())

    def _input(self, node: fx.Node) -> Channels:
        return self.results[node.all_input_nodes[0].name]

    def _convolve(self, node: fx.Node) -> Channels:
        conv, source = self.traced.layer(node), self._input(node)
        assert isinstance(conv, nn.Conv2d)
        groups, name = conv.groups, str(node.target)
        weights = torch.stack(
            [tensors.get(f"{name}.weight", conv.weight).detach() for tensors in self.domains]
        ).double()
        live_DOI = self.live[name]
        shape = (len(self.domains), groups, conv.out_channels // groups)
        zero = source.constant & (source.value == 0)
        harmless = source.constant if not pads(conv) else zero
        feeds = live_DOI.view(*shape, -1) & ~harmless.view(*shape[:2], 1, -1)
        constant = ~feeds.any(3).flatten(1)
        sums = weights.flatten(3).sum(3).view(*shape, -1)
        value = (sums * torch.where(harmless, source.value, 0.0).view(*shape[:2], 1, -1)).sum(3).flatten(1)
        if conv.bias is not None:
            value = value + torch.stack([t.get(f"{name}.bias", conv.bias).detach() for t in self.domains]).double()
        found = self._varying(self._fresh(conv.out_channels))
        found.constant, found.value = constant, torch.where(constant, value, 0.0)
        if groups > 1:  # a group goes as a whole or not at all
            for inputs, outputs in zip(source.ids.chunk(groups), found.ids.chunk(groups), strict=True):
                self._tie([*inputs.tolist(), *outputs.tolist()])
        return found

    def _map(self, node: fx.Node) -> Channels:
        """Send constants through a norm, an activation or the like."""
        source, values = self._input(node), []
        for place, tensors in enumerate(self.domains):
            shape = (1, -1, 1, 1) if len(self.traced.shapes[node.name]) == 4 else (1, -1)
            values.append(self._evaluate(node, source.value[place].float().reshape(shape), tensors).flatten())
        found = self._varying(source.ids)
        found.constant = source.constant.clone()
        found.value = torch.where(found.constant, torch.stack(values).double(), 0.0)
        return found

    @torch.no_grad()
    def _evaluate(self, node: fx.Node, x: Tensor, tensors: DomainTensors) -> Tensor:
        layer = self.traced.layer(node)
        if layer is not None:
            prefix = f"{node.target}."
            own = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            result: Tensor = functional_call(layer.eval(), own, (x,))
            return result
        arguments = fx.node.map_arg(node.args, lambda _node: x)
        keywords = fx.node.map_arg(node.kwargs, lambda _node: x)
        function: Any = getattr(torch.Tensor, str(node.target)) if node.op == "call_method" else node.target
        computed: Tensor = function(*arguments, **keywords)
        return computed

    def _pass_on(self, node: fx.Node) -> Channels:
        source = self._input(node)
        return Channels(source.ids, source.constant.clone(), source.value.clone(), torch.zeros_like(source.read))

    def _combine(self, node: fx.Node, operation: Callable[[Tensor, Tensor], Tensor]) -> Channels:
        first, *rest = (self.results[each.name] for each in node.all_input_nodes)
        second = rest[0] if rest else first  # x + x
        for one, other in zip(first.ids.tolist(), second.ids.tolist(), strict=True):
            self._tie([one, other])
        found = self._varying(first.ids)
        found.constant = first.constant & second.constant
        if operation is torch.mul:  # nothing times anything is nothing
            found.constant |= (first.constant & (first.value == 0)) | (second.constant & (second.value == 0))
        found.value = torch.where(found.constant, operation(first.value, second.value), 0.0)
        return found

    def _concatenate(self, node: fx.Node) -> Channels:
        parts = [self.results[each.name] for each in _parts(node)]
        found = self._varying(torch.cat([part.ids for part in parts]))
        found.constant = torch.cat([part.constant for part in parts], 1)
        found.value = torch.cat([part.value for part in parts], 1)
        return found

    def _append(self, node: fx.Node) -> Channels:
        source = self._input(node)
        added = self.traced.shapes[node.name][1] - len(source.ids)
        found = self._varying(torch.cat([source.ids, self._fresh(added)]))
        zeros = torch.zeros(len(self.domains), added)
        found.constant = torch.cat([source.constant, zeros == 0], 1)
        found.value = torch.cat([source.value, zeros.double()], 1)
        return found

    def _flatten(self, node: fx.Node) -> Channels:
        source = self._input(node)
        pixels = self.traced.shapes[node.name][1] // len(source.ids)
        found = self._varying(source.ids.repeat_interleave(pixels))
        found.constant = source.constant.repeat_interleave(pixels, 1)
        found.value = source.value.repeat_interleave(pixels, 1)
        return found

    def _barrier(self, node: fx.Node) -> Channels | None:
        """Follow nothing through an operation that is not known to keep channels apart: all its channels stay."""
        for each in node.all_input_nodes:
            if each.name in self.results:
                self._forced |= set(self.results[each.name].ids.tolist())
        shape = self.traced.shapes.get(node.name, ())
        if len(shape) not in (2, 4) or node.op == "get_attr":
            return None
        found = self._varying(self._fresh(shape[1]))
        self._forced |= set(found.ids.tolist())
        return found

    def _backward(self, node: fx.Node) -> None:
        kind = self.kinds[node.name]
        sources = [self.results[each.name] for each in node.all_input_nodes if each.name in self.results]
        if kind is Kind.SIZE:
            return
        if kind in (Kind.OUTPUT, Kind.OPAQUE):
            for source in sources:
                source.read[:] = True
            return
        read = self.results[node.name].read
        if kind is Kind.CONV:
            conv = self.traced.layer(node)
            assert isinstance(conv, nn.Conv2d)
            live = self.live[str(node.target)] & read[:, :, None]
            grouped = live.view(len(self.domains), conv.groups, conv.out_channels // conv.groups, -1)
            sources[0].read |= grouped.any(2).flatten(1)
        elif kind is Kind.CAT:
            parts = [self.results[each.name] for each in _parts(node)]
            for source, piece in zip(parts, torch.split(read, [len(part.ids) for part in parts], 1), strict=True):
                source.read |= piece
        elif kind is Kind.FLATTEN:
            sources[0].read |= read.view(*sources[0].read.shape, -1).any(2)
        else:
            for source in sources:
                source.read |= read[:, : source.read.shape[1]]

    def _tie(self, ids: Sequence[int]) -> None:
        roots = {self._find(each) for each in ids}
        first = min(roots)
        for root in roots:
            self._parents[root] = first

    def _find(self, each: int) -> int:
        while self._parents[each] != each:
            self._parents[each] = each = self._parents[self._parents[each]]
        return each

    def _keep(self) -> set[int]:
        """Keep what any domain reads and cannot know beforehand, and of every result at least one channel."""
        kept = {self._find(each) for each in self._forced}
        for result in self.results.values():
            wanted = (result.read & ~result.constant).any(0)
            kept |= {self._find(each) for each in result.ids[wanted].tolist()}
        for result in self.results.values():
            if len(result.ids) and not any(self._find(each) in kept for each in result.ids.tolist()):
                kept.add(self._find(int(result.ids[0])))
        return kept


def _has_state(module: nn.Module, name: str) -> bool:
    layer = module.get_submodule(name)
    return any(True for _ in layer.parameters()) or any(True for _ in layer.buffers())


def _parts(node: fx.Node) -> list[fx.Node]:
    listed = node.args[0] if node.args else node.kwargs["tensors"]
    return [each for each in listed if isinstance(each, fx.Node)]  # type: ignore[union-attr]


def pads(conv: nn.Conv2d) -> bool:
    """Tell whether a convolution adds zeros around its input."""
    if "Same" in type(conv).__name__:  # timm's pads by itself
        return True
    return conv.padding != "valid" if isinstance(conv.padding, str) else any(conv.padding)
