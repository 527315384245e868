"""Tensors by domain and name."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType

from torch import Tensor, nn

NONE: Mapping[str, Tensor] = MappingProxyType({})


class PerDomain(nn.Module):
    """Copies of named tensors, a set for every domain: some to be learned, others only kept, such as statistics."""

    def __init__(self, learned: Mapping[str, Tensor], num_domains: int, kept: Mapping[str, Tensor] = NONE) -> None:
        super().__init__()
        self.sets = nn.ModuleList(nn.Module() for _ in range(num_domains))
        for each in self.sets:
            for name, tensor in learned.items():  # a registered name must not hold a dot
                each.register_parameter(name.replace(".", "/"), nn.Parameter(tensor.detach().clone()))
            for name, tensor in kept.items():
                each.register_buffer(name.replace(".", "/"), tensor.detach().clone())

    def of(self, domain: int) -> dict[str, Tensor]:
        """Give one domain's tensors."""
        each = self.sets[domain]
        return {name.replace("/", "."): tensor for name, tensor in chain(each.named_parameters(), each.named_buffers())}
