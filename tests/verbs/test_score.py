"""Scores of named benchmarks."""

import json

import pytest
from typer.testing import CliRunner

from prunus.cli.app import app
from prunus.errors import DataError
from prunus.verbs.score import score_accuracies

OURS = "56.9,35.2,69.8,95.4,48.5,98.8,71.4,87.3,96.3,41.9"


def test_scores_that_need_a_cost_are_left_out_where_it_is_unknown() -> None:
    scores = score_accuracies("decathlon", [0.5] * 10, params_ratio=0.5).scores
    assert scores.s_o is None
    assert scores.s_e is None
    assert scores.s_p == pytest.approx(2 * scores.s)


def test_the_command_scores_accuracies() -> None:
    arguments = [
        "score",
        "--benchmark",
        "decathlon",
        "--accuracy",
        OURS,
        "--macs",
        "0.212",
        "--params",
        "0.41",
        "--json",
    ]
    found = json.loads(CliRunner().invoke(app, arguments).output)
    assert found["scores"]["s"] == pytest.approx(2138, abs=17)
    assert found["scores"]["s_o"] == pytest.approx(found["scores"]["s"] / 0.212)
    assert found["accuracies"]["imagenet12"] == pytest.approx(0.569)
    assert "S_E" in CliRunner().invoke(app, arguments[:-1]).output


def test_shares_and_percentages_give_the_same() -> None:
    percentages = [float(part) for part in OURS.split(",")]
    shares = [value / 100 for value in percentages]
    assert score_accuracies("decathlon", shares).scores.s == pytest.approx(
        score_accuracies("decathlon", percentages).scores.s
    )


def test_accuracies_are_percentages_as_soon_as_one_is_too_large_for_a_share() -> None:
    assert set(score_accuracies("decathlon", [1.0] * 10).accuracies.values()) == {1.0}
    assert set(score_accuracies("decathlon", [1.5] + [1.0] * 9).accuracies.values()) == {0.015, 0.01}


@pytest.mark.parametrize(
    ("accuracies", "ratio", "message"),
    [
        ([0.5] * 9, 1.0, r"has 10 sets \(imagenet12, .*\); got 9"),
        ([50.0] * 9 + [101.0], 1.0, "between 0 and 100, got 101.0"),
        ([0.5] * 9 + [-0.1], 1.0, "between 0 and 1, got -0.1"),
        ([0.5] * 10, 0.0, "macs is a ratio"),
    ],
)
def test_impossible_numbers_are_refused(accuracies: list[float], ratio: float, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_accuracies("decathlon", accuracies, macs_ratio=ratio)
