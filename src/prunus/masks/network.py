"""One frozen network that serves many domains; the domain is an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunus.errors import UnknownNameError
from prunus.masks.norms import DomainNorms
from prunus.masks.switches import KernelSwitches


class Adapter(Protocol):
    """What a method puts in the place of the backbone's own tensors for one domain."""

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Give the tensors that change, by the backbone's names."""


class MultiDomainNet(nn.Module):
    """A frozen backbone, what each domain changes in it, and a linear head per domain.

    A forward pass runs the backbone once with the domain's tensors in the place of its own, so that no layer has to
    know which domain is being served and any architecture works as it is.
    """

    def __init__(
        self, network: nn.Module, num_features: int, classes: Mapping[str, Sequence[str]], adapters: Sequence[nn.Module]
    ) -> None:
        super().__init__()
        self.network = network.requires_grad_(False)
        self.classes = {domain: tuple(names) for domain, names in classes.items()}
        self.adapters = nn.ModuleList(adapters)
        self.heads = nn.ModuleList(nn.Linear(num_features, len(names)) for names in classes.values())
        self.train()

    @property
    def domains(self) -> tuple[str, ...]:
        """Name the domains in order."""
        return tuple(self.classes)

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return next(self.heads.parameters()).device

    @property
    def switches(self) -> KernelSwitches | None:
        """Give the kernel switches, if the method has any."""
        return next((part for part in self.adapters if isinstance(part, KernelSwitches)), None)

    def index(self, domain: str) -> int:
        """Look up a domain's place."""
        if domain not in self.classes:
            raise UnknownNameError("domain", domain, self.classes)
        return self.domains.index(domain)

    def tensors(self, domain: str) -> dict[str, Tensor]:
        """Collect everything in which this domain differs from the backbone."""
        index, frozen = self.index(domain), dict(self.network.named_parameters())
        changed: dict[str, Tensor] = {}
        for adapter in self.adapters:
            changed.update(adapter.tensors(index, frozen))  # type: ignore[operator]  # an Adapter, as ModuleList forgets
        return changed

    def forward(self, images: Tensor, domain: str) -> Tensor:
        """Classify images of one domain: logits."""
        head = self.heads[self.index(domain)]
        features = functional_call(self.network, self.tensors(domain), (images,))
        logits: Tensor = head(features)
        return logits

    def train(self, mode: bool = True) -> MultiDomainNet:
        """Switch to training; norms that all domains share stay as they were pretrained."""
        super().train(mode)
        if not any(isinstance(part, DomainNorms) for part in self.adapters):
            self.network.eval()
        return self
