"""Every domain's own normalisation layers, started from the backbone's."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)


def norm_tensor_names(network: nn.Module) -> tuple[list[str], list[str]]:
    """List the parameters and the statistics of all norms by their full names."""
    parameters, statistics = [], []
    for name, module in network.named_modules():
        if is_norm(module):
            parameters += [f"{name}.{key}" for key, _ in module.named_parameters(recurse=False)]
            statistics += [f"{name}.{key}" for key, _ in module.named_buffers(recurse=False)]
    return parameters, statistics


def is_norm(module: nn.Module) -> bool:
    """Tell torch's norms and their subclasses, and timm's own, which are known by their names only."""
    has_own = next(module.parameters(recurse=False), None) is not None
    return isinstance(module, NORMS) or ("Norm" in type(module).__name__ and has_own)


class DomainNorms(nn.Module):
    """One copy of every norm's weights, biases and running statistics per domain."""

    def __init__(self, network: nn.Module, num_domains: int) -> None:
        super().__init__()
        parameters, statistics = norm_tensor_names(network)
        state = network.state_dict()
        self.copies = nn.ModuleList()
        for _ in range(num_domains):
            copy = nn.Module()
            for name in parameters:  # a registered name must not hold a dot
                copy.register_parameter(name.replace(".", "/"), nn.Parameter(state[name].detach().clone()))
            for name in statistics:
                copy.register_buffer(name.replace(".", "/"), state[name].detach().clone())
            self.copies.append(copy)

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Give one domain's norms by the backbone's names; running statistics are updated in place."""
        copy = self.copies[domain]
        named = [*copy.named_parameters(), *copy.named_buffers()]
        return {name.replace("/", "."): tensor for name, tensor in named}
