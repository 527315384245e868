"""Coloured tables hold the numbers of layers, domains and classes."""

from pathlib import Path

import numpy as np
import pytest

from prunus.measure.by_class.confusion import ByClass, count_classes
from prunus.report.page.heat import MOST_CLASSES, WORST, classes_view, sharing_table, usage_table
from prunus.report.page.run import ReportedRun
from prunus.report.page.writing import read_run_and_baselines
from prunus.verbs.report import run_contents
from tests.makers.run_folders import write_measured_model


@pytest.fixture
def run(tmp_path: Path) -> ReportedRun:
    (run,) = read_run_and_baselines(write_measured_model(tmp_path / "a"), "a", run_contents)
    return run


def test_the_table_of_usage_has_a_row_per_layer_and_a_column_per_domain(run: ReportedRun) -> None:
    costs = run.contents.costs
    assert costs is not None
    table = usage_table(costs)
    assert table.columns == ("birds", "flowers", "any domain")
    assert [name for name, _ in table.rows] == [layer.name for layer in costs.layers]
    for layer, (_, (birds, flowers, union)) in zip(costs.layers, table.rows, strict=True):
        assert birds.text == f"{100 * layer.used[0] / layer.num_kernels:.0f}"
        assert union.text == f"{100 * layer.union / layer.num_kernels:.0f}"
        assert max(birds.strength, flowers.strength) <= union.strength <= 100


def test_domains_share_everything_with_themselves(run: ReportedRun) -> None:
    table = sharing_table(run.contents.sharing)
    assert table.columns == ("birds", "flowers")
    (_, (first, second)), (_, (third, fourth)) = table.rows
    assert first.text == fourth.text == "100"
    assert second.strength == third.strength < 100


def _by_class(size: int, wrong: dict[tuple[int, int], int]) -> ByClass:
    """Results of ten images per class, of which those in `wrong` are taken for another class."""
    truths = np.repeat(np.arange(size), 10)
    predicted = truths.copy()
    for (truth, other), count in wrong.items():
        predicted[np.flatnonzero((truths == truth) & (predicted == truth))[:count]] = other
    return count_classes([f"class {number}" for number in range(size)], truths, predicted)


def test_the_matrix_marks_mistakes_and_says_what_they_are() -> None:
    view = classes_view(_by_class(3, {(0, 1): 2, (2, 0): 5}))
    texts = [[cell.text for cell in cells] for _, cells in view.matrix.rows]
    assert texts == [["8", "2", ""], ["", "10", ""], ["5", "", "5"]]
    assert [[cell.is_wrong for cell in cells] for _, cells in view.matrix.rows] == [
        [False, True, False],
        [False, False, False],
        [True, False, False],
    ]
    cell = view.matrix.rows[0][1][1]
    assert cell.meaning == "2 of 10 images of class 0 are classified as class 1"
    assert cell.strength == 20
    assert [result.name for result in view.worst] == ["class 2", "class 0", "class 1"]
    assert (view.omitted, view.others) == (0, ())


def test_of_many_classes_those_in_the_most_mistakes_are_shown_and_the_worst_are_listed_first() -> None:
    size = MOST_CLASSES + 9
    wrong = {(number, size - 1): number for number in range(1, 9)}
    view = classes_view(_by_class(size, wrong))
    assert view.omitted == 9
    assert len(view.matrix.columns) == MOST_CLASSES
    assert {f"class {number}" for number in (*range(1, 9), size - 1)} <= set(view.matrix.columns)
    assert view.matrix.columns == tuple(sorted(view.matrix.columns, key=lambda name: int(name.split()[1])))
    assert [result.correct for result in view.worst][:8] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert (len(view.worst), len(view.others)) == (WORST, size - WORST)
