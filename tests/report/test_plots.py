"""Plots of a run: bars and curves are the numbers of the results."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prunus.measure.cost import CostReport, DomainCost, LayerCost
from prunus.measure.evaluation import Evaluation
from prunus.report.plots import accuracy_figure, training_figure, usage_figure, write_plots
from prunus.run_folder import RunFolder
from tests.makers.run_folders import results, write_run

pytest.importorskip("matplotlib", reason="needs the extra train")

COSTS = CostReport(
    ("birds", "flowers"),
    (LayerCost("stem", 10, 9, 4, (5, 2), 6, 1, 54), LayerCost("last", 20, 1, 4, (20, 0), 20, 0, 20)),
    (DomainCost(), DomainCost()),
)


def _values(data: object) -> list[float]:
    return [float(value) for value in np.asarray(data, float)]


def test_every_domain_has_a_bar_beside_the_baseline() -> None:
    baseline = results("feature", None, {"birds": 0.6, "flowers": 0.5})
    figure = accuracy_figure(Evaluation.model_validate(results(baselines={"feature": baseline})))
    heights = [[bar.get_height() for bar in bars] for bars in figure.axes[0].containers]
    assert heights == [pytest.approx([60, 50]), pytest.approx([90, 70])]
    assert [text.get_text() for text in figure.axes[0].texts] == ["60.0", "50.0", "90.0", "70.0"]
    alone = accuracy_figure(Evaluation.model_validate(results()))
    assert len(alone.axes[0].containers) == 1


def test_usage_is_a_share_of_each_layer() -> None:
    (axes,) = usage_figure(COSTS, 0.25).axes
    assert [bar.get_height() for bar in axes.containers[0]] == pytest.approx([60, 100])
    birds, flowers, budget = axes.lines
    assert _values(birds.get_ydata()) == pytest.approx([50, 100])
    assert _values(flowers.get_ydata()) == pytest.approx([20, 0])
    assert _values(budget.get_ydata()) == pytest.approx([25, 25])
    assert len(usage_figure(COSTS, None).axes[0].lines) == 2


def test_training_curves_are_the_log(tmp_path: Path) -> None:
    epochs = RunFolder(write_run(tmp_path / "run")).epochs()
    learning, pruning = training_figure(epochs, 0.5).axes
    assert learning.get_ylabel() == "training accuracy (%)"
    assert _values(learning.lines[0].get_xdata()) == pytest.approx([1, 2, 3])
    assert _values(learning.lines[0].get_ydata()) == pytest.approx([0, 30, 60])
    assert _values(pruning.lines[1].get_ydata()) == pytest.approx([100, 80, 60])
    assert _values(pruning.lines[2].get_ydata()) == pytest.approx([90, 90, 90])  # any domain


def test_all_plots_are_written_as_images(tmp_path: Path) -> None:
    epochs = RunFolder(write_run(tmp_path / "run")).epochs()
    paths = write_plots(tmp_path / "plots", Evaluation.model_validate(results()), COSTS, epochs)
    assert [path.name for path in paths] == ["accuracy.png", "usage.png", "training.png"]
    for path in paths:
        assert np.asarray(Image.open(path).convert("L")).std() > 5
