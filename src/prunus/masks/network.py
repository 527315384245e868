"""One frozen network for many domains; the domain is an argument of the forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunus.errors import UnknownNameError
from prunus.masks.adapter import Adapter, Branch, Entrance, LeavesEarly
from prunus.masks.layer_copies import COUNTERS
from prunus.masks.rounding import Rounding
from prunus.masks.switches import Switches


class MultiDomainNet(nn.Module):
    """A frozen backbone, what each domain changes in it, and a linear head per domain.

    A forward pass runs the backbone once, with the domain's tensors in place of its own and the domain's branches
    hooked to its layers. No layer needs to know the domain, and any architecture works unmodified.
    """

    def __init__(
        self,
        network: nn.Module,
        num_features: int,
        classes: Mapping[str, Sequence[str]],
        adapters: Sequence[Adapter],
        image_size: int = 64,
    ) -> None:
        super().__init__()
        self.image_size = image_size
        self.network = network.requires_grad_(False)
        self.classes = {domain: tuple(names) for domain, names in classes.items()}
        self.adapter_list = nn.ModuleList(adapters)
        self.heads = nn.ModuleList(nn.Linear(num_features, len(names)) for names in classes.values())
        self.rounding: Rounding | None = None  # part of training, not of what is learned
        self._features = _features
        self.train()

    def compile_network(self) -> None:
        """Compile the backbone, unless something is hooked to its layers, which is new in every pass."""
        if self.rounding is None and not any(adapter.branches(0) for adapter in self.adapters):
            self._features = torch.compile(_features)

    @property
    def adapters(self) -> list[Adapter]:
        """Return the adapters of the method in order."""
        return [cast("Adapter", adapter) for adapter in self.adapter_list]

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the names of the domains in order."""
        return tuple(self.classes)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.heads.parameters()).device

    @property
    def switches(self) -> Switches | None:
        """Return the switches, if the method has any."""
        return next((adapter for adapter in self.adapters if isinstance(adapter, Switches)), None)

    def index(self, domain: str) -> int:
        """Return the index of a domain."""
        if domain not in self.classes:
            raise UnknownNameError("domain", domain, self.classes)
        return self.domains.index(domain)

    def tensors(self, domain: str) -> dict[str, Tensor]:
        """Collect the tensors in which a domain differs from the backbone."""
        index = self.index(domain)
        current: dict[str, Tensor] = dict(self.network.named_parameters())
        changed: dict[str, Tensor] = {}
        for adapter in self._changing():  # each sees what those before it have changed
            changes = adapter.tensors(index, current)
            changed |= changes
            current |= changes
        return changed

    def _changing(self) -> Iterator[Adapter]:
        """Yield the adapters in order; kernels are rounded before switches turn them off."""
        switches = self.switches
        for adapter in self.adapters:
            if adapter is switches and self.rounding is not None:
                yield self.rounding
            yield adapter
        if switches is None and self.rounding is not None:
            yield self.rounding

    def forward(self, images: Tensor, domain: str) -> Tensor:
        """Compute the logits of images of one domain."""
        return self.features_and_logits(images, domain)[1]

    def features_and_logits(self, images: Tensor, domain: str) -> tuple[Tensor | None, Tensor]:
        """Compute the features and the logits of images of one domain; a domain that exits early has no features."""
        index = self.index(domain)
        try:
            with ExitStack() as stack:
                for adapter in self._changing():
                    stack.enter_context(adapter.computing())
                    for name, entrance in adapter.entrances(index).items():
                        layer = self.network.get_submodule(name)
                        stack.enter_context(layer.register_forward_pre_hook(_as_pre_hook(entrance)))
                    for name, branch in adapter.branches(index).items():
                        layer = self.network.get_submodule(name)
                        stack.enter_context(layer.register_forward_hook(_as_hook(branch)))  # removed on exit
                features = self._features(self.network, self.tensors(domain), images)
        except LeavesEarly as early:
            return None, early.logits
        logits: Tensor = self.heads[index](features)
        return features, logits

    def extra_loss(self, domain: str, logits: Tensor, labels: Tensor) -> Tensor | None:
        """Sum what the method adds to the mean loss of the last training batch."""
        index = self.index(domain)
        losses = [loss for adapter in self.adapters if (loss := adapter.loss(index, logits, labels)) is not None]
        return torch.stack(losses).sum() if losses else None

    def train(self, mode: bool = True) -> MultiDomainNet:
        """Set the training mode; norms shared by all domains stay in evaluation mode."""
        super().train(mode)
        if not any(adapter.own_norms for adapter in self.adapters):
            self.network.eval()
        return self

    def dense_bytes(self) -> int:
        """Count the bytes of the unpruned backbone as float32, without any head."""
        return sum(4 * t.numel() for key, t in self.network.state_dict().items() if not key.endswith(COUNTERS))


def _features(network: nn.Module, tensors: Mapping[str, Tensor], images: Tensor) -> Tensor:
    features: Tensor = functional_call(network, dict(tensors), (images,))
    return features


def _as_pre_hook(entrance: Entrance):  # type: ignore[no-untyped-def]  # noqa: ANN202  # torch's hooks are untyped
    return lambda _module, inputs: (entrance(inputs[0]), *inputs[1:])


def _as_hook(branch: Branch):  # type: ignore[no-untyped-def]  # noqa: ANN202  # torch's hooks are untyped
    return lambda _module, inputs, output: branch(inputs[0], output)
