"""A budget becomes whole numbers, never more than it says."""

import pytest

from prunus.budgets.limits import Limits, Usage, limits_of
from prunus.config import Budget
from prunus.errors import UnknownNameError
from prunus.measure.budget import whole_share
from prunus.measure.cost import CostReport, LayerCost

# name, kernels, kernel area, positions, used by each domain, union, intersection, weights read
LAYERS = (LayerCost("first", 10, 9, 16, (), 0, 0, 0), LayerCost("second", 30, 1, 4, (), 0, 0, 0))
DENSE = CostReport((), LAYERS, ())  # 40 kernels of 120 weights
DOMAINS = ("a", "b")


@pytest.mark.parametrize(
    ("share", "total", "expected"),
    [(0.29, 100, 29), (0.25, 75_312, 18_828), (0.999, 10, 9), (1.0, 7, 7), (1e-6, 100, 0), (1 / 3, 9, 3)],
)
def test_a_share_is_rounded_down_but_not_by_the_error_of_a_float(share: float, total: int, expected: int) -> None:
    assert whole_share(share, total) == expected


def test_every_unit_becomes_a_whole_number() -> None:
    budget = Budget(kernels=0.26, weights=0.5, bytes=1000, macs=500)
    assert limits_of(budget, DOMAINS, DENSE) == Limits(DOMAINS, 10, 60, 1000, (500, 500))
    assert limits_of(Budget(macs={"b": 500}), DOMAINS, DENSE) == Limits(DOMAINS, macs=(None, 500))
    assert limits_of(Budget(kernels=1.0), DOMAINS, DENSE) == Limits(DOMAINS, 40)


def test_limits_of_unknown_domains_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown domain of budget\.macs 'c'"):
        limits_of(Budget(macs={"c": 500}), DOMAINS, DENSE)


def test_the_tightest_limit_decides_and_one_that_is_missed_is_enough() -> None:
    limits = Limits(DOMAINS, kernels=10, bytes=1000, macs=(None, 400))
    usage = Usage(kernels=8, weights=99, bytes=950, macs=(9999, 300))
    assert [(line.name, line.domain, line.used, line.limit) for line in limits.lines(usage)] == [
        ("kernels", None, 8, 10),
        ("bytes", None, 950, 1000),
        ("macs", "b", 300, 400),
    ]
    assert limits.are_kept(usage)
    assert limits.share_used(usage) == 0.95
    assert not limits.are_kept(Usage(8, 99, 950, (0, 401)))
    assert limits.are_kept(Usage(10, 99, None, (0, 400)))  # no file can hold the network


@pytest.mark.parametrize(
    ("limits", "is_kept", "share"),
    [
        (Limits(DOMAINS, kernels=30), True, 1.0),
        (Limits(DOMAINS, kernels=29), False, 30 / 29),
        (Limits(DOMAINS, weights=400), True, 0.5),
        (Limits(DOMAINS, bytes=4999), False, 5000 / 4999),
        (Limits(DOMAINS, macs=(1000, 2000)), True, 1.0),
        (Limits(DOMAINS, macs=(999, 20000)), False, 1000 / 999),
        (Limits(DOMAINS, macs=(None, 2500)), True, 0.8),
        (Limits(DOMAINS, kernels=60, weights=250, bytes=50000), True, 0.8),
    ],
    ids=str,
)
def test_limits_are_kept_up_to_the_last_unit(limits: Limits, is_kept: bool, share: float) -> None:
    usage = Usage(kernels=30, weights=200, bytes=5000, macs=(1000, 2000))
    assert limits.are_kept(usage) is is_kept
    assert limits.share_used(usage) == pytest.approx(share)
