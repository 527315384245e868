"""A report measures the runs that nobody measured, and only those."""

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import prunus
from prunus.cli.app import app
from prunus.errors import DataError
from prunus.measure.evaluation import Evaluation
from prunus.run_folder import RunFolder
from prunus.verbs.report import run_contents
from tests.makers.run_folders import ACCURACIES, results, write_run

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoint_format_3" / "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "runs" / "first"))


def _make_older(file: Path, than: Path) -> None:
    time = than.stat().st_mtime_ns - 10**9
    os.utime(file, ns=(time, time))


@pytest.mark.slow
def test_a_run_that_is_named_is_measured_and_timed_once(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    first = CliRunner().invoke(app, ["report", str(run), "--out", str(page)])
    assert first.exit_code == 0, first.output
    assert f"measured: {run} (wrote results.json and bench.json)\n" in first.output
    folder = RunFolder(run)
    measured = Evaluation.model_validate_json(folder.results.read_bytes())
    assert measured.split == "test"
    text = page.read_text()
    assert f"{100 * measured.mean_accuracy:.1f}" in text
    assert prunus.write_report(run, page).measured == {}
    assert page.read_text() == text


@pytest.mark.slow
def test_results_older_than_the_checkpoint_are_measured_again_on_the_same_split(run: Path, tmp_path: Path) -> None:
    folder = RunFolder(run)
    prunus.evaluate(run, "validation", device="cpu")
    assert (
        prunus.write_report(run.parent, tmp_path / "r.html").measured == {}
    )  # nor is it timed: only its folder is named
    _make_older(folder.results, folder.checkpoint)
    assert prunus.write_report(run.parent, tmp_path / "r.html", measure=False).measured == {}
    assert prunus.write_report(run.parent, tmp_path / "r.html").measured == {str(run): ("results.json",)}
    assert Evaluation.model_validate_json(folder.results.read_bytes()).split == "validation"
    assert not folder.is_outdated(folder.results)


def test_a_run_whose_images_are_gone_is_left_out_or_shown_as_it_was_measured(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> Evaluation:
        raise DataError("no such folder: birds")

    prunus.evaluate(run, device="cpu")
    monkeypatch.setattr("prunus.evaluation.saved.measure_run", gone)
    folder = RunFolder(run)
    _make_older(folder.results, folder.checkpoint)
    report = prunus.write_report(run.parent, tmp_path / "r.html")
    assert report.measured == {}
    assert report.left_out == {}
    assert "The results are older than the run&#39;s checkpoint" in report.page.read_text()
    folder.results.unlink()
    with pytest.raises(DataError, match="first: it could not be measured: no such folder: birds"):
        prunus.write_report(run.parent, tmp_path / "r.html")


def test_a_run_without_a_model_file_has_the_sizes_of_the_file_that_prune_would_write(run: Path, tmp_path: Path) -> None:
    parts = run_contents(run).bytes_by_part
    assert parts == prunus.inspect(prunus.prune(run, tmp_path / "m.prunus")).bytes_by_part


def test_runs_on_the_same_domains_share_one_baseline(tmp_path: Path) -> None:
    feature = results("feature", None)
    for name, domains in (("first", ACCURACIES), ("second", ACCURACIES), ("third", {"signs": 0.5})):
        baselines = {"feature": feature if domains is ACCURACIES else results("feature", None, domains)}
        write_run(tmp_path / "runs" / name, results(accuracies=domains, baselines=baselines))
    report = prunus.write_report(tmp_path / "runs", tmp_path / "r.html")
    assert report.runs == ("first", "first/feature", "second", "third", "third/feature")
