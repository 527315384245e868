"""A model file as torch modules: a smaller network for one domain, or one network with the domain as an input."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunus.backbone.zoo import build_network
from prunus.bundle.bundle import Bundle
from prunus.masks.layout import switch_layout
from prunus.masks.network import MultiDomainNet
from prunus.masks.switches import Switches
from prunus.pruning.plan import plan_pruning
from prunus.pruning.shrink import shrink
from prunus.runtime.torch_engine import domain_tensors


class Baked(nn.Module):
    """One domain's network: only the channels it needs, its masks and norms inside."""

    def __init__(self, network: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.network, self.head = network, head

    def forward(self, images: Tensor) -> Tensor:
        """Classify images: logits."""
        logits: Tensor = self.head(self.network(images))
        return logits


@torch.no_grad()
def bake(bundle: Bundle, domain: str) -> Baked:
    """Make the smaller network of one domain."""
    net = _single_domain(bundle, domain)
    small = shrink(net, plan_pruning(net))
    state = dict(small.network.named_parameters()) | dict(small.network.named_buffers())
    for name, tensor in small.tensors(domain).items():
        state[name].copy_(tensor)
    head = small.heads[0]
    assert isinstance(head, nn.Linear)
    return Baked(small.network, head).eval().requires_grad_(False)


def _single_domain(bundle: Bundle, domain: str) -> MultiDomainNet:
    network = build_network(bundle.manifest.backbone).eval()
    tensors = domain_tensors(bundle, domain, network)
    state = network.state_dict()
    for name, tensor in tensors.items():
        state[name].copy_(tensor)
    switches = Switches(switch_layout(network), 1)
    views = switches.layout.views(switches.scores_DM)
    for layer in bundle.manifest.convs:
        mask_OI = torch.from_numpy(bundle.mask(domain, layer))
        views[layer].copy_(torch.where(mask_OI, 1.0, -1.0)[None, :, :, None, None])
    entry = bundle.manifest.domains[domain]
    net = MultiDomainNet(
        network, bundle.manifest.num_features, {domain: entry.classes}, [switches], entry.preprocess.size
    )
    for key, parameter in net.heads[0].named_parameters():
        parameter.copy_(torch.from_numpy(bundle.arrays[f"head/{domain}/{key}"]))
    return net.eval()


class Switchable(nn.Module):
    """One network for all domains: shared weights, and a mask, norms and a head that the domain's number chooses."""

    def __init__(self, bundle: Bundle) -> None:
        super().__init__()
        self.network = build_network(bundle.manifest.backbone).eval().requires_grad_(False)
        self.names: list[str] = []  # of the tensors that differ, in the order of `chosen`
        self.masked: list[str] = []  # of the convolutions, in the order of `masks`
        by_domain = [domain_tensors(bundle, domain, self.network) for domain in bundle.domains]
        self.chosen, self.masks = nn.ParameterList(), nn.ParameterList()
        state = self.network.state_dict()
        weights = {f"{layer}.weight": layer for layer in bundle.manifest.convs}
        for name in by_domain[0]:
            if name in weights:
                layer = weights[name]
                union = bundle.union(layer)
                state[name].copy_(torch.from_numpy(bundle.weight(layer, union)))
                masks = [torch.from_numpy(bundle.mask(domain, layer)) for domain in bundle.domains]
                self.masked.append(name)
                self.masks.append(_constant(torch.stack(masks)[:, :, :, None, None].float()))
            else:
                self.names.append(name)
                self.chosen.append(_constant(torch.stack([tensors[name] for tensors in by_domain])))
        self.head_weight, self.head_bias = _padded_heads(bundle)

    def forward(self, images: Tensor, domain: Tensor) -> Tensor:
        """Classify images of the domain with a number: logits, padded to the largest number of classes."""
        frozen = dict(self.network.named_parameters())
        tensors = {name: _pick(stack, domain) for name, stack in zip(self.names, self.chosen, strict=True)}
        for name, masks in zip(self.masked, self.masks, strict=True):
            tensors[name] = frozen[name] * _pick(masks, domain)
        features = functional_call(self.network, tensors, (images,))
        logits: Tensor = features @ _pick(self.head_weight, domain).T + _pick(self.head_bias, domain)
        return logits


def _pick(stack: Tensor, domain: Tensor) -> Tensor:
    return torch.index_select(stack, 0, domain.reshape(1)).squeeze(0)


def _constant(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor, requires_grad=False)


def _padded_heads(bundle: Bundle) -> tuple[nn.Parameter, nn.Parameter]:
    """Stack the heads; a class that a domain has not is as good as impossible."""
    most = max(len(entry.classes) for entry in bundle.manifest.domains.values())
    weights: Sequence[Tensor] = [torch.zeros(most, bundle.manifest.num_features) for _ in bundle.domains]
    biases: Sequence[Tensor] = [torch.full((most,), -1e9) for _ in bundle.domains]
    for weight, bias, (domain, entry) in zip(weights, biases, bundle.manifest.domains.items(), strict=True):
        weight[: len(entry.classes)] = torch.from_numpy(bundle.arrays[f"head/{domain}/weight"])
        bias[: len(entry.classes)] = torch.from_numpy(bundle.arrays[f"head/{domain}/bias"])
    return _constant(torch.stack(list(weights))), _constant(torch.stack(list(biases)))
