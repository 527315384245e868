"""Rows of several seeds become means and standard deviations, and Pareto fronts hold what nothing beats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunus.measure.comparison import Comparison, ComparisonRow, front, near_best, over_seeds, pareto_front
from tests.makers.comparison_rows import ROW

shares = st.floats(0, 1)


@given(st.lists(st.tuples(shares, shares, st.integers(0, 10**9)), min_size=2, max_size=6))
def test_means_and_deviations_are_those_of_numpy(values: list[tuple[float, float, int]]) -> None:
    rows = {
        seed: ROW.model_copy(
            update={"mean_accuracy": a, "accuracies": {"birds": a}, "macs_ratio": m, "stored_bytes": b, "seconds": m}
        )
        for seed, (a, m, b) in enumerate(values)
    }
    joined = over_seeds(rows)
    accuracies, macs, sizes = np.array(values, float).T
    assert joined.spread is not None
    assert joined.mean_accuracy == joined.accuracies["birds"] == pytest.approx(accuracies.mean())
    assert joined.spread.mean_accuracy == pytest.approx(accuracies.std(ddof=1), abs=1e-12)
    assert joined.macs_ratio == joined.seconds == pytest.approx(macs.mean())
    assert joined.spread.macs_ratio == pytest.approx(macs.std(ddof=1), abs=1e-12)
    assert joined.stored_bytes == pytest.approx(sizes.mean(), abs=0.5)
    assert joined.spread.stored_bytes == pytest.approx(sizes.std(ddof=1))
    assert joined.seeds == tuple(range(len(values)))


def test_one_seed_has_no_spread_and_the_largest_usage_is_that_of_any_seed() -> None:
    assert over_seeds({3: ROW}) == ROW.model_copy(update={"seeds": (3,)})
    joined = over_seeds({0: ROW, 1: ROW.model_copy(update={"largest_usage": 0.6})})
    assert joined.largest_usage == 0.6


def test_a_score_that_is_missing_for_one_seed_is_missing_for_all() -> None:
    scored = [{"s": 10.0, "s_o": 20.0, "s_p": 5.0, "s_e": None}, {"s": 14.0, "s_o": None, "s_p": 5.0, "s_e": None}]
    rows = {seed: ComparisonRow.model_validate(dict(ROW) | {"scores": scores}) for seed, scores in enumerate(scored)}
    joined = over_seeds(rows)
    assert joined.scores is not None
    assert joined.scores.model_dump() == {"s": 12.0, "s_o": None, "s_p": 5.0, "s_e": None}
    assert joined.spread is not None
    assert joined.spread.scores is not None
    assert joined.spread.scores.s == pytest.approx(np.std([10, 14], ddof=1))


def test_a_table_without_seeds_is_written_as_it_was_read() -> None:
    content = {"domains": ["birds"], "backbone": "wrn14_2", "split": "test", "rows": [ROW.model_dump(mode="json")]}
    assert "seeds" not in content["rows"][0]
    assert Comparison.model_validate(content).model_dump(mode="json")["rows"] == content["rows"]


@given(st.lists(st.tuples(shares, shares), min_size=1, max_size=12))
def test_a_front_holds_exactly_the_points_that_no_other_beats(points: list[tuple[float, float]]) -> None:
    found = pareto_front(points)
    for index, (cost, accuracy) in enumerate(points):
        better = [c <= cost and a >= accuracy and (c, a) != (cost, accuracy) for c, a in points]
        twin = any(points[other] == points[index] for other in found if other != index)
        assert (index in found) == (not any(better) and not twin)
    assert [points[index][0] for index in found] == sorted(points[index][0] for index in found)


def test_the_front_of_rows_weighs_a_cost_against_the_mean_accuracy() -> None:
    small = ROW.model_copy(update={"stored_bytes": 10, "mean_accuracy": 0.5, "macs_ratio": 0.9})
    assert front([ROW, small], "stored_bytes") == [1, 0]
    assert front([ROW, small], "macs_ratio") == [0]


def test_rows_over_their_budgets_are_not_on_the_front() -> None:
    over = ROW.model_copy(update={"largest_usage": 0.6, "mean_accuracy": 1.0, "stored_bytes": 1})
    assert over.is_over_budget
    assert not ROW.is_over_budget
    assert not over.model_copy(update={"budget": None}).is_over_budget
    assert front([over, ROW], "stored_bytes") == [1]
    assert front([over], "macs_ratio") == []
    assert ROW.model_copy(update={"union": 0.6}).is_over_budget  # whose method is the union loss
    assert not ROW.model_copy(update={"union": 0.6, "method": "ba2"}).is_over_budget
    assert ROW.model_copy(update={"budget_kept": False}).is_over_budget
    assert not over.model_copy(update={"budget_kept": True}).is_over_budget  # as it was measured


def test_a_budget_is_kept_if_it_is_with_every_seed() -> None:
    kept, missed = (ROW.model_copy(update={"budget_kept": is_kept}) for is_kept in (True, False))
    assert over_seeds({0: kept, 1: kept}).budget_kept is True
    assert over_seeds({0: kept, 1: missed}).is_over_budget
    assert over_seeds({0: ROW, 1: ROW}).budget_kept is None


def test_seeds_that_differ_make_the_interval_of_their_mean_wider() -> None:
    interval = {"accuracy_intervals": {"birds": (0.85, 0.94)}, "mean_accuracy_interval": (0.85, 0.94)}
    same = [ROW.model_copy(update=interval) for _ in range(3)]
    other = [
        row.model_copy(update={"mean_accuracy": 0.9 + shift, "accuracies": {"birds": 0.9 + shift}})
        for row, shift in zip(same, (-0.02, 0.0, 0.02), strict=True)
    ]
    first, second = (over_seeds(dict(enumerate(rows))) for rows in (same, other))
    assert first.mean_accuracy_interval == pytest.approx((0.85, 0.94))
    assert first.accuracy_intervals["birds"] == pytest.approx((0.85, 0.94))
    assert second.mean_accuracy_interval is not None
    assert second.mean_accuracy_interval[0] < 0.84
    assert over_seeds({0: ROW, 1: ROW}).mean_accuracy_interval is None  # of an earlier version


def test_rows_are_near_the_best_only_if_intervals_are_known() -> None:
    best = ROW.model_copy(update={"mean_accuracy_interval": (0.88, 0.92)})
    lower = best.model_copy(update={"mean_accuracy": 0.88, "mean_accuracy_interval": (0.86, 0.90)})
    assert near_best([lower, best, ROW.model_copy(update={"mean_accuracy": 0.89})]) == [0]
    assert near_best([ROW, ROW]) == near_best([]) == []
