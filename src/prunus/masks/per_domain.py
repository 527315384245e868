"""Named tensors, one set per domain."""

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from torch import Tensor, nn

NONE: Mapping[str, Tensor] = MappingProxyType({})


class PerDomain(nn.Module):
    """Copies of named tensors for every domain: parameters to be learned, and buffers such as running statistics."""

    def __init__(self, learned: Mapping[str, Tensor], num_domains: int, buffers: Mapping[str, Tensor] = NONE) -> None:
        super().__init__()
        self.sets = nn.ModuleList(nn.Module() for _ in range(num_domains))
        for module in self.sets:
            for name, tensor in learned.items():  # torch allows no dots in registered names
                module.register_parameter(name.replace(".", "/"), nn.Parameter(tensor.detach().clone()))
            for name, tensor in buffers.items():
                module.register_buffer(name.replace(".", "/"), tensor.detach().clone())

    def of(self, domain: int) -> dict[str, Tensor]:
        """Return one domain's tensors by name."""
        module = self.sets[domain]
        tensors = chain(module.named_parameters(), module.named_buffers())
        return {name.replace("/", "."): tensor for name, tensor in tensors}
