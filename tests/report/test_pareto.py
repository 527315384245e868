"""The plot of a sweep: points with spread, the fronts, and labels that can be read."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from prunus.measure.comparison import ComparisonRow, Sweep, over_seeds
from prunus.methods.table import METHODS
from prunus.report.pareto import Style, overlap, pareto_figure, point_label
from prunus.report.plots import save_figure
from tests.makers.comparison_rows import ROW

if TYPE_CHECKING:
    from matplotlib.figure import Figure

pytest.importorskip("matplotlib", reason="needs the extra train")


def _row(method: str, budget: float | None, accuracy: float, size: int, macs: float) -> ComparisonRow:
    rows = {
        seed: ROW.model_copy(
            update={
                "name": f"{method}-{budget}",
                "method": method,
                "budget": budget,
                "largest_usage": 0.1,
                "union": 0.2,
                "macs_ratio": macs * (1 + seed / 100),
                "stored_bytes": size + 1000 * seed,
                "accuracies": {"birds": accuracy},
                "mean_accuracy": accuracy + seed / 100,
            }
        )
        for seed in (0, 1, 2)
    }
    return over_seeds(rows)


def _sweep(*rows: ComparisonRow) -> Sweep:
    return Sweep(domains=("birds",), backbone="wrn14_2", split="test", rows=rows)


ROWS = [
    _row("union", 0.25, 0.70, 10**6, 0.2),
    _row("union", 0.5, 0.75, 2 * 10**6, 0.4),
    _row("ba2", 0.25, 0.65, 15 * 10**5, 0.3),
    _row("bn", None, 0.8, 3 * 10**6, 1.0),
]


def test_both_panels_show_every_row_with_its_spread_and_the_front() -> None:
    panels = pareto_figure(_sweep(*ROWS)).axes
    for axes, cost, factor in zip(panels, ("stored_bytes", "macs_ratio"), (1e-6, 100), strict=True):
        line = next(line for line in axes.lines if line.get_label() == "Pareto front")
        front = [ROWS[0], ROWS[1], ROWS[3]]
        expected = [(factor * getattr(row, cost), 100 * row.mean_accuracy) for row in front]
        assert np.allclose(line.get_xydata(), expected)
        assert len(axes.containers) == len(ROWS)
        for row, container in zip(ROWS, axes.containers, strict=True):
            assert row.spread is not None
            segment = container[2][1].get_segments()[0]  # of the vertical bar
            assert segment[1, 1] - segment[0, 1] == pytest.approx(200 * row.spread.mean_accuracy)
    assert "over 3 seeds" in panels[0].figure.get_suptitle()


def _legend(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_trials_over_their_budgets_are_hollow_explained_and_not_on_the_front() -> None:
    over = ROWS[0].model_copy(update={"largest_usage": 0.3})
    figure = pareto_figure(_sweep(over, *ROWS[1:]))
    for axes, cost, factor in zip(figure.axes, ("stored_bytes", "macs_ratio"), (1e-6, 100), strict=True):
        line = next(line for line in axes.lines if line.get_label() == "Pareto front")
        assert np.isclose(line.get_xdata(), factor * getattr(over, cost)).sum() == 0
        faces = [container[0].get_markerfacecolor() for container in axes.containers]
        assert [face == "white" for face in faces] == [True, False, False, False]
        assert "β=0.25*" in [label.get_text() for label in axes.texts]
    assert _legend(figure) == ["Pareto front", "union", "ba2", "bn", "* over its budget β, not on the front"]
    assert _legend(pareto_figure(_sweep(*ROWS))) == ["Pareto front", "union", "ba2", "bn"]
    assert _legend(pareto_figure(_sweep(over))) == ["union", "* over its budget β, not on the front"]


def test_every_method_looks_different() -> None:
    styles = {Style.number(index) for index in range(len(METHODS))}
    assert len(styles) == len(METHODS)


@pytest.mark.parametrize("number", [4, 40])
def test_labels_do_not_overlap_each_other(number: int) -> None:
    random = np.random.default_rng(0)
    rows = [_row("union", 0.25, a, int(1e6 * (1 + s)), m) for a, s, m in random.random((number, 3)) * 0.9]
    figure = pareto_figure(_sweep(*rows))
    for axes in figure.axes:
        boxes = [label.get_window_extent().extents for label in axes.texts]
        assert boxes
        assert not any(overlap(box, other) for box, other in itertools.combinations(boxes, 2))


def test_a_label_says_what_the_colour_does_not() -> None:
    assert point_label(ROWS[0]) == "β=0.25"
    assert point_label(ROWS[3]) == ""
    assert point_label(ROWS[0].model_copy(update={"options": {"training.lr": 0.1}})) == "training.lr=0.1 β=0.25"


def test_boxes_that_only_touch_do_not_overlap() -> None:
    assert overlap((0, 0, 2, 2), (1, 1, 3, 3))
    assert not overlap((0, 0, 1, 1), (1, 0, 2, 1))
    assert not overlap((0, 0, 1, 1), (0, 5, 1, 6))


def test_one_trial_of_one_seed_is_drawn_without_bars(tmp_path: Path) -> None:
    alone = ROWS[0].model_copy(update={"seeds": (0,), "spread": None})
    path = save_figure(pareto_figure(_sweep(alone)), tmp_path / "pareto.svg")
    assert "standard deviation" not in path.read_text()
    again = save_figure(pareto_figure(_sweep(alone)), tmp_path / "again.svg")
    assert path.read_bytes() == again.read_bytes()
