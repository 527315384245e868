"""Describe the methods of the table and the backbones, as the catalog lists them."""

from prunus.backbone.own.registry import find_own
from prunus.backbone.zoo import ZOO, Backbone, load_backbone
from prunus.catalog import EXAMPLE, NUM_DOMAINS, MethodDescription, Option, ZooRow
from prunus.config import BackboneChoice
from prunus.methods.costs import dense_costs, network_costs
from prunus.methods.table import METHODS, adapt


def describe_methods() -> list[MethodDescription]:
    """Describe all methods of the table, with their costs on the example network."""
    backbone = load_backbone(BackboneChoice(name=EXAMPLE, weights="random"))
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
        method.keeps_budget,
        method.masked,
        method.sharing,
        costs.params_ratio(with_source=True),
        costs.mean_macs_ratio(),
    )


def describe_backbone(name: str) -> ZooRow:
    """Describe a backbone: bundled, registered or of timm; no weights are downloaded."""
    backbone = load_backbone(BackboneChoice(name=name, weights="random"))
    costs = dense_costs(backbone)
    entry = ZOO.get(name)
    return ZooRow(
        name,
        backbone.preprocess.size,
        costs.dense_weights(),
        costs.num_kernels(),
        costs.dense_macs(),
        f"bundled, {entry.trained_on}" if entry else _origin(name),
        entry.top1 if entry else None,
        backbone.notes,
    )


def _origin(name: str) -> str:
    own = find_own(name)
    if own is None:
        return "timm, hub or file"
    return f"registered, {own.weights.name}" if own.weights else "registered, as built"
