"""Plan a recipe."""

from prunus.config import Recipe
from prunus.evaluation.planning import plan_recipe
from prunus.measure.budget import Plan


def plan(recipe: Recipe) -> Plan:
    """Say what a recipe's model will hold, weigh and compute, before anything is trained.

    A budget that cannot be kept is refused, with the smallest value that can. Images are listed, but not decoded.
    """
    return plan_recipe(recipe)
