"""Describe the methods: what each does, where it was published and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.methods.costs import network_costs
from prunus.methods.table import METHODS, adapt

EXAMPLE = "wrn28_4"
NUM_DOMAINS = 9


@dataclass(frozen=True)
class Option:
    """A key of a recipe's [method] table."""

    default: object
    description: str


@dataclass(frozen=True)
class MethodDescription:
    """One method; `params_ratio` is for the source domain and nine more on the example network, nothing pruned yet."""

    name: str
    summary: str
    paper: str
    cost: str
    options: dict[str, Option]
    has_budget: bool
    masked: bool
    params_ratio: float
    macs_ratio: float


def methods() -> list[MethodDescription]:
    """Describe all methods of the table."""
    backbone = load_backbone(BackboneChoice(name=EXAMPLE))
    classes = {f"domain {place}": ("a", "b") for place in range(NUM_DOMAINS)}
    found = []
    for name, method in METHODS.items():
        costs = network_costs(adapt(backbone, classes, name), backbone.probe)
        found.append(
            MethodDescription(
                name,
                method.summary,
                method.paper,
                method.cost,
                {
                    key: Option(each.default, each.description or "")
                    for key, each in method.options.model_fields.items()
                },
                method.has_budget,
                method.masked,
                costs.params_ratio(with_source=True),
                costs.mean_macs_ratio(),
            )
        )
    return found
