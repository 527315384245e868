"""Figures of one run: they draw the numbers of its layers, its log and its timings."""

from dataclasses import replace
from pathlib import Path

import pytest

from prunus.report.page.plot import Plot
from prunus.report.page.reading import read_run
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import learning_figure, run_figures
from prunus.report.page.writing import read_run_and_baselines
from prunus.verbs.report import run_contents
from tests.makers.run_folders import results, write_measured_model, write_run


@pytest.fixture
def run(tmp_path: Path) -> ReportedRun:
    """A run with a model file, a log of three epochs and timings for one and two threads."""
    (run,) = read_run_and_baselines(write_measured_model(tmp_path / "a"), "a", run_contents)
    return run


def _traces(figure: Plot) -> dict[str, Plot]:
    return {trace["name"]: trace for trace in figure["data"]}


def test_everything_that_is_known_of_a_run_is_drawn(run: ReportedRun) -> None:
    assert list(run_figures(run)) == ["usage", "sharing", "learning", "pruning", "latency-1", "latency-2"]


def test_a_run_with_nothing_but_results_has_no_figures(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", results("feature", None))
    (folder / "log.jsonl").unlink()
    assert run_figures(read_run(folder, "a")) == {}


def test_the_map_of_usage_has_a_row_per_layer_and_a_column_per_domain(run: ReportedRun) -> None:
    (heat,) = run_figures(run)["usage"]["data"]
    assert heat["x"] == ["birds", "flowers", "any domain"]
    assert len(heat["y"]) == len(heat["z"]) > 1
    for birds, flowers, union in heat["z"]:
        assert max(birds, flowers) <= union <= min(100, birds + flowers)


def test_domains_share_everything_with_themselves(run: ReportedRun) -> None:
    (heat,) = run_figures(run)["sharing"]["data"]
    assert heat["x"] == heat["y"] == ["birds", "flowers"]
    assert heat["z"][0][0] == heat["z"][1][1] == 100
    assert heat["z"][0][1] == heat["z"][1][0] < 100


def test_curves_follow_the_log(run: ReportedRun) -> None:
    figures = run_figures(run)
    learning, pruning = _traces(figures["learning"]), _traces(figures["pruning"])
    assert learning["birds"]["x"] == [1, 2, 3]
    assert learning["birds"]["y"] == pytest.approx([0, 30, 60])
    assert figures["learning"]["layout"]["yaxis"]["title"]["text"] == "training accuracy, %"
    assert pruning["flowers"]["y"] == pytest.approx([100, 80, 60])
    assert pruning["any domain"]["y"] == pytest.approx([90, 90, 90])
    assert pruning["budget"]["y"] == pytest.approx([50, 50, 50])


def test_every_epoch_of_a_short_run_has_a_tick_and_long_runs_have_fewer(run: ReportedRun) -> None:
    long = [replace(run.epochs[0], epoch=number) for number in range(30)]
    assert learning_figure(run.epochs)["layout"]["xaxis"]["dtick"] == 1
    assert "dtick" not in learning_figure(long)["layout"]["xaxis"]


def test_bars_are_the_median_latencies_of_one_thread_count(run: ReportedRun) -> None:
    (bars,) = run_figures(run)["latency-2"]["data"]
    assert bars["y"] == ["Prunus, birds", "Prunus, flowers", "PyTorch dense"]
    assert bars["x"] == [0.25, 0.35, 2.0]
    assert bars["marker"]["color"] == ["$c0", "$c0", "$muted"]
