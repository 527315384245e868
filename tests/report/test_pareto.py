"""The plot of a sweep: points with spread, the fronts, and labels that can be read."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from prunus.measure.comparison import ComparisonRow, Sweep, over_seeds
from prunus.report.pareto import overlap, pareto_figure, point_label
from prunus.report.plots import save_figure

pytest.importorskip("matplotlib", reason="needs the extra train")


def _row(method: str, budget: float | None, accuracy: float, size: int, macs: float) -> ComparisonRow:
    rows = {
        seed: ComparisonRow(
            name=f"{method}-{budget}",
            method=method,
            options={},
            budget=budget,
            largest_usage=0.1,
            union=0.4,
            macs_ratio=macs * (1 + seed / 100),
            params_ratio=0.5,
            stored_bytes=size + 1000 * seed,
            accuracies={"birds": accuracy},
            mean_accuracy=accuracy + seed / 100,
            scores=None,
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
    assert path.stat().st_size == again.stat().st_size
