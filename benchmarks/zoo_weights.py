"""Weights with which every layer of a network counts, and a check that it does.

A new network of timm computes almost nothing in many of its blocks: scales of 1e-6, gains and last norms of 0, small
weights in linear layers. Logits that equal torch's would say nothing about the layers of such blocks. So what is
constant in a new network is drawn, linear layers get larger weights, and a layer counts if scrambling its weights moves
the logits.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from typing_extensions import override

from prunus.masks.adapter import Adapter
from prunus.masks.network import MultiDomainNet

GAINS = (0.5, 1.0)  # scales of layers and norms are drawn between these
SPREAD = 0.1  # the standard deviation of biases and other shifts
LINEAR = 1.5  # the standard deviation of a linear layer's outputs where that of its inputs is 1; a budget makes it less
STRONGER = 3  # a scrambled layer's weights are this many times as large, in another order


@torch.no_grad()
def draw_weights(network: nn.Module) -> int:
    """Draw every parameter whose numbers are all the same, and linear layers; return how many parameters that were."""
    generator = torch.Generator().manual_seed(0)
    constant = [(name, parameter) for name, parameter in network.named_parameters() if _is_constant(parameter)]
    for name, parameter in constant:
        if _is_scale(name, parameter):
            parameter.uniform_(*GAINS, generator=generator)
        else:
            parameter.normal_(0, SPREAD, generator=generator)
    linears = [module for module in network.modules() if isinstance(module, nn.Linear)]
    for linear in linears:
        linear.weight.normal_(0, LINEAR / linear.in_features**0.5, generator=generator)
    return len(constant) + len(linears)


def _is_constant(parameter: Tensor) -> bool:
    return bool((parameter == parameter.flatten()[0]).all())


def _is_scale(name: str, parameter: Tensor) -> bool:
    """Return whether a parameter scales channels, or everything; others are shifts, embeddings or tables."""
    shift = any(word in name.rpartition(".")[2] for word in ("bias", "beta"))
    return not shift and parameter.numel() == max(parameter.shape, default=1)


class _Scrambled(Adapter):
    """The weights of one layer, as every domain has them, stronger and in another order."""

    layer = ""

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        name = f"{self.layer}.weight"
        order = torch.randperm(frozen[name].numel(), generator=torch.Generator().manual_seed(0))
        return {name: STRONGER * frozen[name].flatten()[order].view_as(frozen[name])}


@torch.no_grad()
def moved_by_scrambling(net: MultiDomainNet, images: Tensor, layers: Iterable[str]) -> dict[str, float]:
    """Return how far the logits move if a layer's weights are scrambled, by layer, relative to the largest logit.

    The domain that moves most counts, since another one may have switched the layer off.
    """
    before = [net(images, domain) for domain in net.domains]
    scrambled = _Scrambled()
    net.adapter_list.append(scrambled)  # the last one: it sees the weights that are multiplied
    moved = {}
    for layer in layers:
        scrambled.layer = layer
        moved[layer] = max(
            float((net(images, domain) - logits).abs().max() / logits.abs().max())
            for domain, logits in zip(net.domains, before, strict=True)
        )
    net.adapter_list.pop(-1)
    return moved
