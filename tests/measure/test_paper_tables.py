"""Scores of named benchmarks, and the paper's tables."""

import json

import pytest
from typer.testing import CliRunner

from prunus.benchmarks import BENCHMARKS
from prunus.cli.app import app
from prunus.errors import DataError
from prunus.measure.paper_tables import DECATHLON_ROWS, IMAGENET_TO_SKETCH_ROWS, SLIPS, RecomputedRow
from prunus.verbs.score import score_accuracies
from prunus.verbs.tables import tables

OURS = "56.9,35.2,69.8,95.4,48.5,98.8,71.4,87.3,96.3,41.9"


@pytest.mark.parametrize("row", tables(), ids=lambda row: f"{row.benchmark} {row.printed.method}")
def test_every_row_of_both_tables_agrees_with_its_own_numbers(row: RecomputedRow) -> None:
    assert row.computed.s == pytest.approx(row.corrected.s, abs=17)
    assert row.computed.s_o == pytest.approx(row.printed.s_o, rel=0.005)
    assert row.computed.s_p == pytest.approx(row.printed.s_p, rel=0.005)
    assert row.computed.s_e == pytest.approx(row.printed.s_e, rel=0.005)


def test_there_are_28_rows_and_four_slips_and_the_slips_matter() -> None:
    assert len(tables()) == 28
    assert len(SLIPS) == 4
    misprinted = next(row for row in DECATHLON_ROWS if row.method == "TAPS λ = 0.25")
    as_printed = score_accuracies("decathlon", misprinted.accuracies).scores.s
    assert abs(as_printed - misprinted.s) > 100


def test_the_references_in_the_benchmarks_are_the_tables_first_rows() -> None:
    for name, rows in (("decathlon", DECATHLON_ROWS), ("imagenet_to_sketch", IMAGENET_TO_SKETCH_ROWS)):
        sets = BENCHMARKS[name].sets
        assert [100 * each.feature_accuracy for each in sets] == pytest.approx(rows[0].accuracies)
        assert [100 * each.finetune_accuracy for each in sets] == pytest.approx(rows[1].accuracies)
        assert sorted(each.number for each in sets) == list(range(1, len(sets) + 1))


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


def test_the_tables_command_prints_both_tables_and_every_slip() -> None:
    output = CliRunner().invoke(app, ["tables"]).output
    assert output.count("Ours β = 0.25") == 2
    assert all(slip.corrected in output and slip.why in output for slip in SLIPS)
    assert len(json.loads(CliRunner().invoke(app, ["tables", "--json"]).output)["rows"]) == 28


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
