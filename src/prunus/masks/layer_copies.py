"""Trainable copies of some of the backbone's layers, per domain or shared by all."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layout import is_switched
from prunus.masks.per_domain import PerDomain

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
COUNTERS = "num_batches_tracked"  # torch counts batches in every norm, but no prediction depends on it


def norm_layers(network: nn.Module) -> list[str]:
    """Return the names of all norms: torch's, their subclasses, and timm's, which are recognized by class name."""
    return [name for name, module in network.named_modules() if is_norm(module)]


def other_layers(network: nn.Module) -> list[str]:
    """Name what has parameters and is neither a switched layer nor a norm, in networks with switched linear layers.

    These are position embeddings, class tokens, scales of layers and the like. Networks with switches on convolutions
    only have few of them, and keep them as they are.
    """
    modules = dict(network.named_modules())
    if not any(is_switched(module) and isinstance(module, nn.Linear) for module in modules.values()):
        return []
    return [
        name
        for name, module in modules.items()
        if next(module.parameters(recurse=False), None) is not None and not is_norm(module) and not is_switched(module)
    ]


def is_norm(module: nn.Module) -> bool:
    """Return whether a module is a norm with weights or statistics."""
    has_weights = next(module.parameters(recurse=False), None) is not None
    return isinstance(module, NORMS) or ("Norm" in type(module).__name__ and has_weights)


class LayerCopies(Adapter):
    """Copies of the parameters and running statistics of some layers: one per domain or, if `together`, one for all."""

    def __init__(self, network: nn.Module, layers: Collection[str], num_domains: int, together: bool = False) -> None:
        super().__init__()
        modules = {name: network.get_submodule(name) for name in layers}
        self.convs = frozenset(name for name, module in modules.items() if is_switched(module))
        self.own_norms = not together and set(norm_layers(network)) <= set(layers)
        self.together = together
        learned = {key: p for name, m in modules.items() for key, p in m.named_parameters(name, recurse=False)}
        # one copy for all domains would hold the same constants as the backbone; only running statistics change
        changing = {name: module for name, module in modules.items() if not together or is_norm(module)}
        kept = {key: b for name, m in changing.items() for key, b in m.named_buffers(name, recurse=False)}
        self.copies = PerDomain(learned, 1 if together else num_domains, kept)

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return one domain's copies under the backbone's names; running statistics are updated in place."""
        return self.copies.of(0 if self.together else domain)

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        weights = 0
        side = 0
        for name, tensor in self.tensors(domain, {}).items():
            layer, _, key = name.rpartition(".")
            if layer not in run.shapes or key == COUNTERS:
                continue
            if layer in self.convs and key == "weight":
                weights += tensor.numel()
            else:
                side += tensor.numel()
        if self.together:
            return Cost(shared_weights=weights, side=0 if domain else side, owned=self.convs)
        return Cost(weights=weights, side=side, owned=self.convs)


class SharedConvolutions(LayerCopies):
    """One trained copy of all switched layers and of what is no norm, for all domains, in place of the backbone's.

    Args:
        kept: convolution -> (outputs, inputs): kernels that stay those of the backbone.
    """

    def __init__(self, network: nn.Module, convs: Collection[str], kept: Mapping[str, Tensor] | None = None) -> None:
        super().__init__(network, [*convs, *other_layers(network)], 1, together=True)
        self._kept = tuple((kept or {}).keys())
        for number, mask_OI in enumerate((kept or {}).values()):
            self.register_buffer(f"kept_{number}", mask_OI[..., None, None], persistent=False)

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        tensors = dict(super().tensors(domain, frozen))
        for number, conv in enumerate(self._kept):
            name = f"{conv}.weight"
            if name in frozen:
                tensors[name] = torch.where(self.get_buffer(f"kept_{number}"), frozen[name], tensors[name])
        return tensors

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        """Count no kernels: they replace the backbone's, so what the domains read of them is counted there."""
        return Cost(side=super().cost(domain, run).side)


class DomainNorms(LayerCopies):
    """A copy of every norm's weights, biases and running statistics per domain."""

    def __init__(self, network: nn.Module, num_domains: int) -> None:
        super().__init__(network, norm_layers(network), num_domains)
