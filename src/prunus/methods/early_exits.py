"""Early exits: parallel adapters and several exits; each domain uses the earliest exit that is good enough.

Senhaji et al., ICPR 2020. Easy domains exit early and compute fewer layers. All exits are trained at once. Each has a
classifier on the mean of its feature map. The last exit is the head of the network.

Legend: D = domains, E = exits.
"""

from collections.abc import Mapping, Sequence
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
from prunus.masks.layer_copies import DomainNorms
from prunus.methods.adapters import ParallelAdapters
from prunus.methods.method import Method

MOMENTUM = 0.95  # of the running accuracy of an exit


class Options(Settings):
    """The number of exits, and how much worse than the best one the chosen one may be."""

    tolerance: float = Field(default=0.01, ge=0, le=1, description="allowed loss of accuracy on training batches")
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
    """A classifier per domain and early exit, and the running accuracy of each exit."""

    accuracy_DE: Tensor  # noqa: N815  # shape suffix; running sum whose weights add up to seen_D
    seen_D: Tensor  # noqa: N815

    def __init__(self, layers: dict[str, int], classes: Sequence[int], tolerance: float) -> None:
        super().__init__()
        self.layers = list(layers)
        self.tolerance = tolerance
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(channels, count) for channels in layers.values()) for count in classes
        )
        self.register_buffer("accuracy_DE", torch.zeros(len(classes), len(layers) + 1))
        self.register_buffer("seen_D", torch.zeros(len(classes)))
        self._early_logits: list[Tensor] = []  # of the current training batch

    def chosen(self, domain: int) -> int:
        """Return the earliest exit within the tolerance of the best; before training, the last one."""
        if not self.seen_D[domain]:
            return len(self.layers)
        accuracy_E = self.accuracy_DE[domain] / self.seen_D[domain]
        return int((accuracy_E >= accuracy_E.max() - self.tolerance).nonzero()[0])

    @override
    def branches(self, domain: int) -> dict[str, Branch]:
        """Return functions that record the logits of all exits in training, and stop at the chosen exit otherwise."""
        if self.training:
            self._early_logits = []
            return {name: self._record(domain, index) for index, name in enumerate(self.layers)}
        stop = self.stop(domain)
        return {} if stop is None else {stop: self._leave(domain, self.layers.index(stop))}

    @override
    def stop(self, domain: int) -> str | None:
        return [*self.layers, None][self.chosen(domain)]

    @override
    def loss(self, domain: int, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the early exits, and update the running accuracies."""
        early = self._early_logits
        self._early_logits = []
        with torch.no_grad():
            correct_E = torch.stack([(exit_.argmax(1) == labels).to(logits.dtype).mean() for exit_ in [*early, logits]])
            self.accuracy_DE[domain].lerp_(correct_E, 1 - MOMENTUM)
            self.seen_D[domain].lerp_(torch.ones_like(self.seen_D[domain]), 1 - MOMENTUM)
        return torch.stack([F.cross_entropy(exit_, labels) for exit_ in early]).sum()

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        stop = self.stop(domain)
        head = [] if stop is None else list(self._head(domain, self.layers.index(stop)).parameters())
        return Cost(side=sum(parameter.numel() for parameter in head))

    def _head(self, domain: int, index: int) -> nn.Module:
        return cast("nn.ModuleList", self.heads[domain])[index]

    def _logits(self, domain: int, index: int, features: Tensor) -> Tensor:
        return cast("Tensor", self._head(domain, index)(features.mean((2, 3))))

    def _record(self, domain: int, index: int) -> Branch:
        def record(_input: Tensor, output: Tensor) -> Tensor:
            self._early_logits.append(self._logits(domain, index, output))
            return output

        return record

    def _leave(self, domain: int, index: int) -> Branch:
        def leave(_input: Tensor, output: Tensor) -> Tensor:
            raise LeavesEarly(self._logits(domain, index, output))

        return leave


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Add exits to a network with parallel adapters and norms per domain."""
    network, shapes = backbone.network, backbone.probe.shapes
    layers = {name: shapes[name][0] for name in exit_layers(network, shapes, options.exits)}
    return [
        ParallelAdapters(network, len(classes)),
        DomainNorms(network, len(classes)),
        Exits(layers, classes, options.tolerance),
    ]


METHOD = Method(
    summary="parallel adapters, and the earliest exit that is good enough",
    paper="Senhaji et al., ICPR 2020",
    cost="parallel adapters before the exit",
    build=build,
    options=Options,
)
