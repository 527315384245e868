"""The paper's tables agree with their own numbers, except for the slips."""

import json

import pytest
from typer.testing import CliRunner

from prunus.benchmarks import BENCHMARKS
from prunus.cli.app import app
from prunus.report.paper_tables import DECATHLON_ROWS, IMAGENET_TO_SKETCH_ROWS, SLIPS, RecomputedRow
from prunus.verbs.score import score_accuracies
from prunus.verbs.tables import tables


@pytest.mark.parametrize("row", tables(), ids=lambda row: f"{row.benchmark} {row.printed.method}")
def test_every_row_of_both_tables_agrees_with_its_own_numbers(row: RecomputedRow) -> None:
    assert row.computed.s == pytest.approx(row.corrected.s, abs=17)
    assert row.computed.s_o == pytest.approx(row.printed.s_o, rel=0.005)
    assert row.computed.s_p == pytest.approx(row.printed.s_p, rel=0.005)
    assert row.computed.s_e == pytest.approx(row.printed.s_e, rel=0.005)


def test_there_are_28_rows_and_six_slips_and_the_slips_matter() -> None:
    assert len(tables()) == 28
    assert len(SLIPS) == 6
    misprinted = next(row for row in DECATHLON_ROWS if row.method == "TAPS λ = 0.25")
    as_printed = score_accuracies("decathlon", misprinted.accuracies).scores.s
    assert abs(as_printed - misprinted.s) > 100


def test_the_flops_of_imagenet_to_sketch_leave_out_imagenet_where_those_of_ba2_count_it() -> None:
    rows = {row.method: row for row in IMAGENET_TO_SKETCH_ROWS}
    ours, theirs = (
        [rows[f"{method} β = {budget}"] for budget in ("1.00", "0.75", "0.25")] for method in ("Ours", "BA²")
    )
    assert ours[2].macs < 1 / 6  # six sets, of which one would count 1
    assert (6 * theirs[2].macs - 1) / 5 == pytest.approx(0.25)  # exactly the budget once ImageNet is taken out
    alike = [(5 * row.macs + 1) / 6 for row in ours]
    assert SLIPS[4].corrected == f"{alike[2]:.3f} if ImageNet counts"
    scores = [row.s / macs for row, macs in zip(ours, alike, strict=True)]
    assert [round(score) for score in scores] == [1710, 1699, 2185]
    assert [score > row.s_o for score, row in zip(scores, theirs, strict=True)] == [False, True, True]
    assert ours[0].s_o < theirs[2].s_o  # against the text


def test_the_references_in_the_benchmarks_are_the_tables_first_rows() -> None:
    for name, rows in (("decathlon", DECATHLON_ROWS), ("imagenet_to_sketch", IMAGENET_TO_SKETCH_ROWS)):
        sets = BENCHMARKS[name].sets
        assert [100 * each.feature_accuracy for each in sets] == pytest.approx(rows[0].accuracies)
        assert [100 * each.finetune_accuracy for each in sets] == pytest.approx(rows[1].accuracies)
        assert sorted(each.number for each in sets) == list(range(1, len(sets) + 1))


def test_the_tables_command_prints_both_tables_and_every_slip() -> None:
    output = CliRunner().invoke(app, ["tables"]).output
    assert output.count("│ Ours β = 0.25") == 2
    words = " ".join(output.split())  # a terminal breaks long lines
    assert all(slip.corrected in words and slip.why in words for slip in SLIPS)
    assert len(json.loads(CliRunner().invoke(app, ["tables", "--json"]).output)["rows"]) == 28
