"""Early exits: parallel adapters in a network with three exits, of which every domain takes the earliest that will do.

Senhaji et al., ICPR 2020: easy domains leave early, so that they pay for fewer layers. All exits are trained at once,
each with a classifier on the mean of its feature map; the last exit is the network's own head.

Legend: D = domains, E = exits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.errors import BackboneError
from prunus.masks.adapter import Adapter, Branch, Cost, LeavesEarly
from prunus.masks.layer_copies import DomainNorms
from prunus.methods.adapters import ParallelAdapters
from prunus.methods.method import Method

MEMORY = 0.95  # of an exit's running accuracy


class Options(Settings):
    """How much worse than the best exit the chosen one may be."""

    tolerance: float = Field(default=0.01, ge=0, le=1, description="in accuracy on training batches")
    exits: int = Field(default=3, ge=2, description="the last one included")


def exit_layers(network: nn.Module, shapes: Mapping[str, tuple[int, ...]], num_exits: int) -> list[str]:
    """Name the layers after which the early exits lie: the ends of the network's last stages but the very last."""
    info = getattr(network, "feature_info", None) or ()
    stages = [str(stage["module"]) for stage in info if len(shapes.get(stage["module"], ())) == 3]
    if len(stages) < num_exits:
        raise BackboneError(
            f"the network names {len(stages)} stages, too few for {num_exits} exits; "
            "lower method.exits or choose another network"
        )
    return stages[-num_exits:-1]


class Exits(Adapter):
    """A classifier per domain and early exit, and how well each exit did lately."""

    accuracy_DE: Tensor  # noqa: N815  # shape suffix; a running sum, with the weights of which seen_D is the sum
    seen_D: Tensor  # noqa: N815

    def __init__(self, layers: dict[str, int], classes: Sequence[int], tolerance: float) -> None:
        super().__init__()
        self.layers, self.tolerance = list(layers), tolerance
        self.heads = nn.ModuleList(
            nn.ModuleList(nn.Linear(channels, count) for channels in layers.values()) for count in classes
        )
        self.register_buffer("accuracy_DE", torch.zeros(len(classes), len(layers) + 1))
        self.register_buffer("seen_D", torch.zeros(len(classes)))
        self._seen: list[Tensor] = []  # the early exits' logits of the batch that is being learned

    def chosen(self, domain: int) -> int:
        """Choose the earliest exit that is nearly as good as the best; before any training, the last."""
        if not self.seen_D[domain]:
            return len(self.layers)
        accuracy_E = self.accuracy_DE[domain] / self.seen_D[domain]
        return int((accuracy_E >= accuracy_E.max() - self.tolerance).nonzero()[0])

    def branches(self, domain: int) -> dict[str, Branch]:
        """In training look through all exits, otherwise leave by the chosen one."""
        if self.training:
            self._seen = []
            return {name: self._look(domain, index) for index, name in enumerate(self.layers)}
        stop = self.stop(domain)
        return {} if stop is None else {stop: self._leave(domain, self.layers.index(stop))}

    def stop(self, domain: int) -> str | None:
        """Name the layer before the chosen exit."""
        return [*self.layers, None][self.chosen(domain)]

    def loss(self, domain: int, logits: Tensor, labels: Tensor) -> Tensor:
        """Train the early exits too, and remember how well each exit did."""
        early, self._seen = self._seen, []
        with torch.no_grad():
            right_E = torch.stack([(found.argmax(1) == labels).to(logits.dtype).mean() for found in [*early, logits]])
            self.accuracy_DE[domain].lerp_(right_E, 1 - MEMORY)
            self.seen_D[domain].lerp_(torch.ones_like(self.seen_D[domain]), 1 - MEMORY)
        return torch.stack([F.cross_entropy(found, labels) for found in early]).sum()

    def cost(self, domain: int, run: Probe) -> Cost:
        """Count the chosen exit's classifier."""
        stop = self.stop(domain)
        head = [] if stop is None else list(self._head(domain, self.layers.index(stop)).parameters())
        return Cost(side=sum(parameter.numel() for parameter in head))

    def _head(self, domain: int, index: int) -> nn.Module:
        return cast("nn.ModuleList", self.heads[domain])[index]

    def _logits(self, domain: int, index: int, features: Tensor) -> Tensor:
        logits: Tensor = self._head(domain, index)(features.mean((2, 3)))
        return logits

    def _look(self, domain: int, index: int) -> Branch:
        def look(_input: Tensor, output: Tensor) -> Tensor:
            self._seen.append(self._logits(domain, index, output))
            return output

        return look

    def _leave(self, domain: int, index: int) -> Branch:
        def leave(_input: Tensor, output: Tensor) -> Tensor:
            raise LeavesEarly(self._logits(domain, index, output))

        return leave


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Put exits into a network with parallel adapters and a domain's own norms."""
    network, shapes = backbone.network, backbone.probe.shapes
    layers = {name: shapes[name][0] for name in exit_layers(network, shapes, options.exits)}
    return [
        ParallelAdapters(network, len(classes)),
        DomainNorms(network, len(classes)),
        Exits(layers, classes, options.tolerance),
    ]


METHOD = Method(
    summary="parallel adapters, and the earliest of three exits that will do",
    paper="Senhaji et al., ICPR 2020",
    cost="parallel adapters before its exit",
    build=build,
    options=Options,
)
