"""Compare a measured model with the budget of its recipe."""

from prunus.budgets.limits import cost_usage, limits_of
from prunus.config import Recipe
from prunus.evaluation.traits import method_traits
from prunus.measure.budget import KernelShare, LimitUse
from prunus.measure.cost import CostReport


def limits_used(recipe: Recipe, costs: CostReport, size: int | None) -> tuple[LimitUse, ...] | None:
    """Return what a model takes of every limit; None where its method has no budget.

    The method `exact` limits all domains together. The budget of other methods is the share of each domain and, with
    the union loss, of all domains together.

    Args:
        size: of the model file.
    """
    method = method_traits(recipe)
    if not method.has_budget:
        return None
    if method.keeps_budget:
        return tuple(limits_of(recipe.budget, costs.domains, costs).lines(cost_usage(costs, size)))
    share = recipe.budget.kernels
    per = method.options.get("budget_per", "network")
    return None if share is None else KernelShare.of(share, method.sharing, per).limits(costs)
