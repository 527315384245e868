"""Early exits: parallel adapters and several exits; each domain uses the earliest exit that is good enough.

Senhaji et al., ICPR 2020. Easy domains exit early and compute fewer layers. All exits are trained at once. Each has a
norm, a ReLU and a 1x1 convolution to as many channels as the network has features, and a classifier on their means. The
authors' halve the channels. The last exit is the head of the network. Images that were held out of training
decide which exit a domain uses.

Legend: D = domains, E = exits.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from prunus.amounts import plural
from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.errors import BackboneError
from prunus.masks.adapter import Adapter, Branch, Cost, LeavesEarly
from prunus.masks.layer_copies import COUNTERS, DomainNorms
from prunus.methods.adapters import ParallelAdapters
from prunus.methods.method import Method


class Options(Settings):
    """The number of exits, and how much worse than the best one the chosen one may be."""

    tolerance: float = Field(default=0.02, ge=0, le=1, description="allowed loss of accuracy on held-out images")
    exits: int = Field(default=3, ge=2, description="number of exits, including the last one")


def exit_layers(network: nn.Module, shapes: Mapping[str, tuple[int, ...]], num_exits: int) -> list[str]:
    """Return the layers before the early exits: the ends of the last stages, except the final one."""
    info = getattr(network, "feature_info", None) or ()
    stages = [str(stage["module"]) for stage in info if _is_map(shapes.get(stage["module"], ()), stage)]
    if len(stages) < num_exits:
        raise BackboneError(
            f"the network has {plural(len(stages), 'stage')}, too few for {plural(num_exits, 'exit')}; "
            "lower method.exits or choose another network"
        )
    return stages[-num_exits:-1]


def _is_map(shape: Sequence[int], stage: Mapping[str, object]) -> bool:
    """Return whether the result of a stage is a feature map, channels first."""
    return len(shape) == 3 and shape[0] == stage.get("num_chs", shape[0])


class Exits(Adapter):
    """An exit per domain and stage, and the accuracy of each exit on held-out images."""

    accuracy_DE: Tensor  # noqa: N815  # shape suffix; on held-out images
    seen_D: Tensor  # noqa: N815  # whether any were seen

    def __init__(self, layers: dict[str, int], num_features: int, classes: Sequence[int], tolerance: float) -> None:
        super().__init__()
        self.layers = list(layers)
        self.tolerance = tolerance
        self.exits = nn.ModuleList(
            nn.ModuleList(_exit(channels, num_features, count) for channels in layers.values()) for count in classes
        )
        self.register_buffer("accuracy_DE", torch.zeros(len(classes), len(layers) + 1))
        self.register_buffer("seen_D", torch.zeros(len(classes)))
        self._records_all = False
        self._early_logits: list[Tensor] = []  # of the current batch

    def chosen(self, domain: int) -> int:
        """Return the earliest exit within the tolerance of the best; before any is measured, the last one."""
        if not self.seen_D[domain]:
            return len(self.layers)
        accuracy_E = self.accuracy_DE[domain]
        return int((accuracy_E >= accuracy_E.max() - self.tolerance).nonzero()[0])

    def measured(self, domain: int, accuracy_E: Tensor) -> None:
        """Keep the accuracies of a domain's exits on held-out images, which choose its exit."""
        self.accuracy_DE[domain] = accuracy_E
        self.seen_D[domain] = 1.0

    @contextmanager
    def recording(self) -> Iterator[list[Tensor]]:
        """Let passes run through all exits; their logits are in the list after each pass."""
        self._records_all = True
        try:
            yield self._early_logits
        finally:
            self._records_all = False
            self._early_logits.clear()

    @override
    def branches(self, domain: int) -> dict[str, Branch]:
        """Return functions that record the logits of all exits in training, and stop at the chosen exit otherwise."""
        if self.training or self._records_all:
            self._early_logits.clear()
            return {name: self._record(domain, index) for index, name in enumerate(self.layers)}
        stop = self.stop(domain)
        return {} if stop is None else {stop: self._leave(domain, self.layers.index(stop))}

    @override
    def stop(self, domain: int) -> str | None:
        return [*self.layers, None][self.chosen(domain)]

    @override
    def loss(self, domain: int, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the early exits."""
        losses = [F.cross_entropy(early, labels) for early in self._early_logits]
        self._early_logits.clear()
        return torch.stack(losses).sum()

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        stop = self.stop(domain)
        if stop is None:
            return Cost()
        tensors = self._exit(domain, self.layers.index(stop)).state_dict()
        sizes = {name: tensor.numel() for name, tensor in tensors.items() if not name.endswith(COUNTERS)}
        weights = sizes.pop("2.weight")
        return Cost(weights=weights, side=sum(sizes.values()), macs=weights * prod(run.shapes[stop][1:]))

    def _exit(self, domain: int, index: int) -> nn.Module:
        return cast("nn.ModuleList", self.exits[domain])[index]

    def _record(self, domain: int, index: int) -> Branch:
        def record(_input: Tensor, output: Tensor) -> Tensor:
            self._early_logits.append(self._exit(domain, index)(output))
            return output

        return record

    def _leave(self, domain: int, index: int) -> Branch:
        def leave(_input: Tensor, output: Tensor) -> Tensor:
            raise LeavesEarly(self._exit(domain, index)(output))

        return leave


def _exit(channels: int, num_features: int, num_classes: int) -> nn.Module:
    return nn.Sequential(
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, num_features, 1, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(num_features, num_classes),
    )


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Add exits to a network with parallel adapters and norms per domain."""
    network, shapes = backbone.network, backbone.probe.shapes
    layers = {name: shapes[name][0] for name in exit_layers(network, shapes, options.exits)}
    return [
        ParallelAdapters(network, len(classes)),
        DomainNorms(network, len(classes)),
        Exits(layers, backbone.probe.num_features, classes, options.tolerance),
    ]


METHOD = Method(
    summary="parallel adapters, and the earliest exit that is good enough",
    paper="Senhaji et al., ICPR 2020",
    cost="parallel adapters before the exit, and the exit",
    build=build,
    options=Options,
    holds_out=True,
    weight_lr=0.1,
)
