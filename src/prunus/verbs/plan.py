"""Plan a recipe."""

from prunus.evaluation.planning import plan_recipe
from prunus.measure.budget import Plan
from prunus.verbs.arguments import RecipeLike, as_recipe


def plan(recipe: RecipeLike) -> Plan:
    """Say what a recipe's model will hold, weigh and compute, before anything is trained.

    A budget that cannot be kept is refused, with the smallest value that can. Images are listed, but not decoded.
    """
    return plan_recipe(as_recipe(recipe))
