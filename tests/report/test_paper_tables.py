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


def test_the_tables_command_prints_both_tables_and_every_slip() -> None:
    output = CliRunner().invoke(app, ["tables"]).output
    assert output.count("Ours β = 0.25") == 2
    assert all(slip.corrected in output and slip.why in output for slip in SLIPS)
    assert len(json.loads(CliRunner().invoke(app, ["tables", "--json"]).output)["rows"]) == 28
