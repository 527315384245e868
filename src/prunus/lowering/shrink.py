"""Make the smaller network of a plan, with the same outputs; the given network is left alone.

Legend: D = domains, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunus.errors import BackboneError
from prunus.lowering.channels import ChannelFlow, pads
from prunus.lowering.constants import FoldedConstants, WithConstants
from prunus.lowering.operations import Kind, classify
from prunus.lowering.plan import PrunePlan, follow, make_plan, on_cpu
from prunus.lowering.trace import TracedNetwork
from prunus.masks.adapter import Adapter
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import switch_layout
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches


@torch.no_grad()
def shrink(net: MultiDomainNet, plan: PrunePlan) -> MultiDomainNet:
    """Leave out every channel that the plan leaves out, and fold the constants among them into what reads them."""
    net = on_cpu(net)
    traced, flow = follow(net)
    if plan != make_plan(net, traced, flow):
        raise BackboneError(
            "the plan is of another network, of other masks, or was changed; make one with plan_pruning(net)"
        )
    return _Shrinking(net, plan, traced, flow).run()


class _Shrinking:
    """One network on its way to a smaller one."""

    def __init__(self, net: MultiDomainNet, plan: PrunePlan, traced: TracedNetwork, flow: ChannelFlow) -> None:
        self.net, self.plan, self.traced, self.flow = net, plan, traced, flow
        self.domains = [net.tensors(domain) for domain in net.domains]
        self.small = copy.deepcopy(traced.module)
        self.masks: dict[str, Tensor] = {}  # convolution of the small network -> (D, O, I)
        self.constants: list[dict[str, Tensor]] = [{} for _ in net.domains]
        self.norms: dict[str, list[int]] = {}  # norm -> the channels that stay of it

    def run(self) -> MultiDomainNet:
        nodes = {node.name: node for node in self.small.graph.nodes}
        for node in self.traced.module.graph.nodes:
            layer = self.traced.layer(node)
            if node.name not in self.flow.results:
                continue
            if isinstance(layer, nn.Conv2d):
                self._convolution(node, layer)
            elif isinstance(layer, _BatchNorm):
                self.norms[str(node.target)] = self._kept(node)
                self.small.set_submodule(str(node.target), _norm(layer, self._kept(node)))
            elif classify(node, self.traced) is Kind.PAD:
                added = len(self._kept(node)) - len(self._kept(node.all_input_nodes[0]))
                nodes[node.name].update_arg(1, (0, 0, 0, 0, 0, added))
        self.small.recompile()
        return self._assemble()

    def _kept(self, node: fx.Node) -> list[int]:
        return list(self.plan.channels[node.name])

    def _convolution(self, node: fx.Node, conv: nn.Conv2d) -> None:
        name, source = str(node.target), node.all_input_nodes[0]
        outputs, inputs = self._kept(node), self._kept(source)
        mask_DOI = self.flow.live[name][:, outputs]
        if self.flow.kinds[node.name] is Kind.CONV:  # else it may run several times, read here and not there
            mask_DOI = mask_DOI & self.flow.results[node.name].read[:, outputs, None]
        whole = conv.groups > 1
        weight = conv.weight[outputs] if whole else conv.weight[outputs][:, inputs]
        folded = [] if whole else [self._fold(source, conv, name, outputs, place) for place in range(len(self.domains))]
        small = _like(conv, weight, len(outputs) * conv.groups // conv.out_channels if whole else 1, len(inputs))
        bias = torch.zeros(len(outputs)) if conv.bias is None else conv.bias[outputs].clone()
        if conv.bias is not None:
            small.bias = nn.Parameter(bias, requires_grad=False)
        has_constants = any(bool(kernel.any()) for kernel in folded)
        if has_constants and not pads(conv):  # the same everywhere: a bias will do
            small.bias = nn.Parameter(bias, requires_grad=False)
            for constants, kernel in zip(self.constants, folded, strict=True):
                constants[f"{name}.bias"] = bias + kernel.sum((1, 2, 3)).float()
        if has_constants and pads(conv):
            for constants, kernel in zip(self.constants, folded, strict=True):
                constants[f"{name}.ones_weight"] = kernel.float()
        wrapped = has_constants and pads(conv)
        self.small.set_submodule(name, WithConstants(small) if wrapped else small)
        self.masks[f"{name}.conv" if wrapped else name] = mask_DOI if whole else mask_DOI[:, :, inputs]

    def _fold(self, source: fx.Node, conv: nn.Conv2d, name: str, outputs: Sequence[int], place: int) -> Tensor:
        """Give the kernels over ones that stand for the removed inputs of one domain."""
        result, kept = self.flow.results[source.name], set(self._kept(source))
        gone = [channel for channel in range(len(result.ids)) if channel not in kept]
        weight = self.domains[place].get(f"{name}.weight", conv.weight)[list(outputs)][:, gone].double()
        value = torch.where(result.constant[place], result.value[place], 0.0)[gone]
        return (weight * value[None, :, None, None]).sum(1, keepdim=True)

    def _assemble(self) -> MultiDomainNet:
        net = self.net
        switches = Switches(switch_layout(self.small), len(net.domains))
        views = switches.layout.views(switches.scores_DM)
        for name, mask_DOI in self.masks.items():
            views[name].copy_(torch.where(mask_DOI, 1.0, -1.0)[..., None, None])
        parts: list[Adapter] = [switches]
        if any(isinstance(adapter, DomainNorms) for adapter in net.adapters):
            parts.append(self._domain_norms())
        if self.constants[0]:
            parts.append(FoldedConstants(self.constants[0], list(self.constants)))
        small = MultiDomainNet(self.small, len(self.plan.features), net.classes, parts, net.image_size)
        self._heads(small)
        return small.eval()

    def _domain_norms(self) -> DomainNorms:
        norms = DomainNorms(self.small, len(self.domains))
        for place, tensors in enumerate(self.domains):
            for name, tensor in norms.copies.of(place).items():
                kept = self.norms.get(name.rpartition(".")[0])
                tensor.copy_(tensors[name] if kept is None or tensors[name].ndim == 0 else tensors[name][kept])
        return norms

    def _heads(self, small: MultiDomainNet) -> None:
        output = next(node for node in self.traced.module.graph.nodes if node.op == "output").all_input_nodes[0]
        result, kept = self.flow.results[output.name], list(self.plan.features)
        gone = [channel for channel in range(len(result.ids)) if channel not in set(kept)]
        for place, (head, old) in enumerate(zip(small.heads, self.net.heads, strict=True)):
            assert isinstance(head, nn.Linear)
            assert isinstance(old, nn.Linear)
            head.weight.copy_(old.weight[:, kept])
            value = torch.where(result.constant[place], result.value[place], 0.0)[gone].float()
            head.bias.copy_(old.bias + old.weight[:, gone] @ value)


def _like(conv: nn.Conv2d, weight: Tensor, groups: int, inputs: int) -> nn.Conv2d:
    """Copy a convolution with other weights and without bias."""
    small = copy.deepcopy(conv)
    small.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    small.bias = None
    small.out_channels, small.in_channels, small.groups = len(weight), inputs, groups
    return small


def _norm(norm: _BatchNorm, kept: list[int]) -> _BatchNorm:
    small = copy.deepcopy(norm)
    small.num_features = len(kept)
    for name, parameter in norm.named_parameters(recurse=False):
        setattr(small, name, nn.Parameter(parameter.detach()[kept].clone(), requires_grad=False))
    for name, buffer in norm.named_buffers(recurse=False):
        setattr(small, name, buffer.detach()[kept].clone() if buffer.ndim else buffer.clone())
    return small
