"""A model is compared with the limits that its method has."""

import pytest

from prunus.config import Recipe
from prunus.evaluation.limits import limits_used
from prunus.measure.budget import LimitUse
from prunus.measure.cost import CostReport, LayerCost
from prunus.recipes import parse_recipe

# name, kernels, kernel area, positions, used by each domain, union, intersection, weights read
LAYERS = (LayerCost("first", 10, 9, 16, (4, 5), 7, 2, 63), LayerCost("second", 30, 1, 4, (6, 3), 8, 1, 8))
COSTS = CostReport(("a", "b"), LAYERS, ())
MACS = (4 * 9 * 16 + 6 * 4, 5 * 9 * 16 + 3 * 4)


def _recipe(method: str, budget: object) -> Recipe:
    return parse_recipe({"backbone": "wrn14_2", "domains": ["a", "b"], "method": method, "budget": budget})


def test_the_exact_method_has_limits_for_all_domains_together() -> None:
    budget = {"kernels": 0.375, "weights": 0.5, "bytes": 1000, "macs": {"b": 700}}
    limits = limits_used(_recipe("exact", budget), COSTS, 1001)
    assert limits == (
        LimitUse(name="kernels", used=15, limit=15, kept=True),
        LimitUse(name="weights", used=71, limit=60, kept=False),
        LimitUse(name="bytes", used=1001, limit=1000, kept=False),
        LimitUse(name="macs", domain="b", used=MACS[1], limit=700, kept=False),
    )


def test_a_limit_of_bytes_is_left_out_where_no_file_can_hold_the_network() -> None:
    limits = limits_used(_recipe("exact", {"bytes": 1000, "macs": 1000}), COSTS, None)
    assert limits is not None
    assert [(limit.name, limit.domain, limit.used) for limit in limits] == [
        ("macs", "a", MACS[0]),
        ("macs", "b", MACS[1]),
    ]


@pytest.mark.parametrize("method", ["ba2", "intersection", "jaccard"])
def test_the_budget_of_a_penalty_is_that_of_each_domain(method: str) -> None:
    limits = limits_used(_recipe(method, 0.24), COSTS, 1001)
    assert limits == (
        LimitUse(name="kernels", domain="a", used=10, limit=9, kept=False),
        LimitUse(name="kernels", domain="b", used=8, limit=9, kept=True),
    )


def test_the_budget_of_the_union_loss_is_that_of_all_domains_together_too() -> None:
    limits = limits_used(_recipe("union", 0.25), COSTS, 1001)
    assert limits == (
        LimitUse(name="kernels", domain="a", used=10, limit=10, kept=True),
        LimitUse(name="kernels", domain="b", used=8, limit=10, kept=True),
        LimitUse(name="kernels", used=15, limit=10, kept=False),
    )


def test_a_method_without_a_budget_has_no_limits() -> None:
    assert limits_used(_recipe("bn", 0.25), COSTS, 1001) is None
