"""The scores, on the paper's own rows."""

import pytest

from prunus.benchmarks import find_benchmark
from prunus.errors import DataError
from prunus.measure.score import decathlon_score, efficiency_scores, score_benchmark

FINETUNE = [0.599, 0.603, 0.821, 0.928, 0.555, 0.975, 0.814, 0.877, 0.966, 0.512]
UNION_25 = [0.569, 0.352, 0.698, 0.954, 0.485, 0.988, 0.714, 0.873, 0.963, 0.419]
FEATURE = [0.597, 0.233, 0.631, 0.803, 0.454, 0.682, 0.737, 0.588, 0.435, 0.268]


def test_fine_tuning_scores_a_quarter_of_the_maximum_and_perfection_all_of_it() -> None:
    assert decathlon_score(FINETUNE, FINETUNE) == pytest.approx(2500)
    assert decathlon_score([1.0] * 10, FINETUNE) == pytest.approx(10_000)


def test_twice_the_fine_tuned_error_or_more_scores_nothing() -> None:
    assert decathlon_score([0.0, 0.8], [0.9, 0.9]) == pytest.approx(0)


def test_the_papers_best_row_scores_what_it_prints() -> None:
    assert decathlon_score(UNION_25, FINETUNE) == pytest.approx(2138, abs=17)
    assert decathlon_score(FEATURE, FINETUNE) == pytest.approx(544, abs=17)


def test_efficiency_scores_of_the_papers_best_row() -> None:
    scores = efficiency_scores(2138, 0.212, 0.41, feature_score=544)
    assert scores.s_o == pytest.approx(10085, rel=0.005)
    assert scores.s_p == pytest.approx(5215, rel=0.005)
    assert scores.s_e == pytest.approx(177.72, rel=0.005)


def test_without_a_feature_extractor_there_is_no_s_e() -> None:
    assert efficiency_scores(2500, 1, 1).s_e is None


def test_a_perfect_reference_leaves_no_room_for_error() -> None:
    assert decathlon_score([1.0], [1.0]) == 1000
    assert decathlon_score([0.99], [1.0]) == 0


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        decathlon_score([0.5], [0.5, 0.5])


def test_a_benchmark_is_scored_without_ratios_and_with_possible_ones_only() -> None:
    benchmark = find_benchmark("decathlon")
    name = benchmark.sets[0].name
    unknown = score_benchmark(benchmark, {name: 0.5}, None, None)
    assert (unknown.scores.s_o, unknown.scores.s_p, unknown.scores.s_e) == (None, None, None)
    assert unknown.sets_in_benchmark == 10
    smallest = score_benchmark(benchmark, {name: 0.5}, 1e-6, 0.5)
    assert smallest.scores.s_o == pytest.approx(1e6 * unknown.scores.s)
    assert smallest.scores.s_p == pytest.approx(2 * unknown.scores.s)
    for impossible in (0.0, 9e-7, -1.0, float("inf"), float("nan")):
        with pytest.raises(DataError, match="macs is a ratio to the backbone"):
            score_benchmark(benchmark, {name: 0.5}, impossible, 1.0)
        with pytest.raises(DataError, match="params is a ratio to the backbone"):
            score_benchmark(benchmark, {name: 0.5}, 1.0, impossible)
