"""Describe the methods: what each does, where it was published and what it costs."""

from dataclasses import dataclass

from prunus.backbone.zoo import Backbone, load_backbone
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
    """One method; its ratios are for the source domain and nine more on the example network, before pruning."""

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
    return [_describe(name, backbone) for name in METHODS]


def _describe(name: str, backbone: Backbone) -> MethodDescription:
    method = METHODS[name]
    classes = {f"domain {number}": ("a", "b") for number in range(NUM_DOMAINS)}
    costs = network_costs(adapt(backbone, classes, name), backbone.probe)
    return MethodDescription(
        name,
        method.summary,
        method.paper,
        method.cost,
        {key: Option(field.default, field.description or "") for key, field in method.options.model_fields.items()},
        method.has_budget,
        method.masked,
        costs.params_ratio(with_source=True),
        costs.mean_macs_ratio(),
    )
