"""Plan a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prunus.evaluation.planning import plan_recipe
from prunus.measure.budget import Plan
from prunus.verbs.arguments import Domains, Own, RecipeLike, as_recipe

if TYPE_CHECKING:
    from torch import nn


def plan(recipe: RecipeLike, *, backbone: nn.Module | None = None, domains: Domains | None = None) -> Plan:
    """Say what a recipe's model will hold, weigh and compute, before anything is trained.

    A budget that cannot be kept is refused, with the smallest value that can. Images are listed, but not decoded.

    Args:
        backbone: as in `train`.
        domains: as in `train`.
    """
    own = Own(backbone, domains)
    content = own.in_recipe(as_recipe(recipe))
    with own.passed(content.backbone.name):
        return plan_recipe(content)
