"""Compare a measured model with the budget of its recipe."""

from prunus.budgets.limits import cost_usage, limits_of, whole_share
from prunus.config import Recipe
from prunus.evaluation.traits import method_traits
from prunus.measure.budget import LimitUse
from prunus.measure.cost import CostReport


def limits_used(recipe: Recipe, costs: CostReport, size: int | None) -> tuple[LimitUse, ...] | None:
    """Return what a model takes of every limit; None where its method has no budget.

    The method `exact` limits all domains together. The budget of other methods is the share of each domain.

    Args:
        size: of the model file.
    """
    method = method_traits(recipe)
    if not method.has_budget:
        return None
    if method.keeps_budget:
        return tuple(limits_of(recipe.budget, costs.domains, costs).lines(cost_usage(costs, size)))
    if recipe.budget.kernels is None:
        return None
    limit = whole_share(recipe.budget.kernels, costs.num_kernels())
    return tuple(
        LimitUse.of("kernels", sum(layer.used[index] for layer in costs.layers), limit, domain)
        for index, domain in enumerate(costs.domains)
    )
