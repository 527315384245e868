"""Writing a page: which runs are on it, what is said about the others, and where it may be written."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import prunus
from prunus.cli.app import app
from prunus.errors import DataError, StorageError
from prunus.measure.by_class.confusion import MOST_MISTAKES
from tests.makers.run_folders import by_class, results, write_measured_model, write_run


def test_unreadable_runs_are_named_and_left_out(tmp_path: Path) -> None:
    good, unmeasured = write_run(tmp_path / "good"), write_run(tmp_path / "unmeasured")
    (unmeasured / "results.json").unlink()
    broken, empty = write_run(tmp_path / "broken"), write_run(tmp_path / "empty")
    (broken / "results.json").write_text(json.dumps(results() | {"mean_accuracy": "high"}))
    (empty / "results.json").write_text("")
    found = CliRunner().invoke(
        app,
        ["report", *map(str, (good, unmeasured, broken, empty, tmp_path / "none")), "--out", str(tmp_path / "r.html")],
    )
    assert found.exit_code == 0
    assert f"left out: {unmeasured}: it has not been measured; measure it with: prunus evaluate RUN\n" in found.output
    assert f"left out: {broken}: results.json is not valid: mean_accuracy" in found.output
    assert f"left out: {empty}: results.json is not valid" in found.output
    assert f"left out: {tmp_path / 'none'}: no such run" in found.output
    text = (tmp_path / "r.html").read_text()
    assert "it has not been measured" in text
    assert str(tmp_path) not in text  # a page travels


def test_without_any_run_the_error_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no run to report on: .*none: no such run; make one with"):
        prunus.write_report([tmp_path / "none"], tmp_path / "r.html")
    with pytest.raises(DataError, match="none was named"):
        prunus.write_report([], tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_a_broken_benchmark_or_another_model_file_is_a_note_on_the_page(tmp_path: Path) -> None:
    folder = write_measured_model(tmp_path / "a")
    assert "does not belong" not in _page(folder)
    (folder / "bench.json").write_text("{}")
    content = json.loads((folder / "results.json").read_text())
    content["domains"]["birds"]["usage"] += 0.02
    (folder / "results.json").write_text(json.dumps(content))
    text = _page(folder)
    assert "Latency is omitted: bench.json is not valid" in text
    assert "model.prunus does not belong to the measured run" in text
    assert text.count("Restore the run&#39;s files") == 1  # there is no checkpoint to make a model file of
    assert "Make the model file again" not in text
    assert str(tmp_path) not in text


def test_domains_over_their_budget_are_named_and_many_are_counted(tmp_path: Path) -> None:
    for count, expected in ((2, "Over budget: d0, d1. Train longer"), (8, "d3, d4 and 3 more. Train longer")):
        content = results("union", 0.5, {f"d{number}": 0.5 for number in range(count)})
        for domain in content["domains"].values():
            domain["usage"] = 1.0
        assert expected in _page(write_run(tmp_path / str(count), content))


def test_the_page_says_what_trained_a_run_or_that_the_run_does_not_say(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", results("feature", None))
    assert (
        f"does not record the versions it was trained with; this page was made with prunus {prunus.__version__}"
        in _page(folder)
    )
    (folder / "versions.json").write_text('{"versions": {"prunus": "0.0.7", "torch": "2.9"}}')
    text = _page(folder)
    assert "Trained with prunus 0.0.7, torch 2.9." in text
    assert "does not record" not in text
    (folder / "versions.json").write_text("[]")
    assert "The versions it was trained with are omitted: versions.json is not valid" in _page(folder)


def test_a_place_that_cannot_be_written_is_refused_with_advice_that_fits(tmp_path: Path) -> None:
    folder = write_measured_model(tmp_path / "a")
    (tmp_path / "file").write_text("kept")
    with pytest.raises(StorageError, match=r"it is a folder; name a file in it, such as .*report\.html"):
        prunus.write_report(folder, tmp_path)
    with pytest.raises(StorageError, match=r"it is a folder; name a file in it, such as .*CARD\.md"):
        prunus.card(folder / "model.prunus", tmp_path)
    with pytest.raises(StorageError, match=r"file is a file; choose another folder"):
        prunus.write_report(folder, tmp_path / "file" / "below" / "r.html")
    with pytest.raises(StorageError, match=r"file is a file; choose another folder"):
        prunus.write_report(folder, tmp_path / "r.html", tmp_path / "file")
    assert not (tmp_path / "r.html").exists()
    assert (tmp_path / "file").read_text() == "kept"


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    folder = write_measured_model(tmp_path / "a")
    assert _page(folder) == _page(folder)


@pytest.mark.slow
def test_a_page_about_the_demos_domains_with_a_baseline_and_pictures_is_small(tmp_path: Path) -> None:
    sizes = {"characters": 50, "clothing": 10, "fashion": 10, "fruits": 25, "signs": 10}
    content = results(accuracies=dict.fromkeys(sizes, 0.7))
    for name, count in sizes.items():
        names = [f"{name} number {number}" for number in range(count)]
        content["domains"][name]["by_class"] = by_class(names, images=300, side=96)
        content["domains"][name]["usage"] = 1.0
    folder = write_run(tmp_path / "a", content | {"baselines": {"feature": content}})
    text = _page(folder)
    assert text.count("data:image/jpeg") == 2 * 5 * MOST_MISTAKES
    assert len(text.encode()) < 1_500_000


def _page(folder: Path) -> str:
    return prunus.write_report(folder, folder / "report.html").page.read_text()
