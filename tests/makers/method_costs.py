"""Costs of every method on the paper's network and nine domains, counted once."""

from __future__ import annotations

from functools import cache

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.config import BackboneChoice
from prunus.measure.cost import CostReport
from prunus.methods.costs import network_costs
from prunus.methods.table import adapt

NINE = {f"domain{i}": ["x", "y"] for i in range(9)}


@cache
def wrn28() -> Backbone:
    """Return the paper's network."""
    return load_backbone(BackboneChoice(name="wrn28_4"))


@cache
def nine_domain_costs(method: str) -> CostReport:
    """Return the costs of a method, as it starts."""
    return network_costs(adapt(wrn28(), NINE, method), wrn28().probe)
