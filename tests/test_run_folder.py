"""A run folder names its files and reads its log."""

import os
from pathlib import Path

from prunus.run_folder import DomainEnding, DomainProgress, Ending, EpochReport, RunFolder
from tests.makers.run_folders import write_run

LINE = (
    '{"epoch": 0, "step": 4, "domains": {"a": {"loss": 1.5, "train_accuracy": 0.25, "validation_accuracy": null, '
    '"usage": 0.75, "budget_multiplier": 2.0}}, "union": 0.9, "intersection": 0.1, "sharing_multiplier": 3.0, '
    '"seconds": 1.25}\n'
)


def test_a_line_of_the_log_becomes_an_epoch(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log.write_text(LINE)
    progress = DomainProgress(1.5, 0.25, None, 0.75, 2.0)
    assert folder.epochs() == [EpochReport(0, 4, {"a": progress}, 0.9, 0.1, 3.0, 1.25)]


def test_a_log_is_read_up_to_the_line_that_was_cut_short(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log.write_text(LINE + LINE.replace('"epoch": 0', '"epoch": 1') + LINE[:40])
    assert [report.epoch for report in folder.epochs()] == [0, 1]
    folder.log.write_bytes(LINE.encode() + b"\xff\xfe\n" + LINE.encode())
    assert [report.epoch for report in folder.epochs()] == [0]


def test_a_run_without_a_log_has_no_epochs(tmp_path: Path) -> None:
    assert RunFolder(tmp_path / "none").epochs() == []
    RunFolder(tmp_path).log.mkdir()
    assert RunFolder(tmp_path).epochs() == []


def test_logs_of_earlier_versions_are_read(tmp_path: Path) -> None:
    epochs = RunFolder(write_run(tmp_path / "run")).epochs()  # without multipliers and intersection
    assert [(report.epoch, report.seconds) for report in epochs] == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert epochs[2].domains["birds"].train_accuracy == 0.6


def test_the_files_of_a_run_have_the_names_that_users_know(tmp_path: Path) -> None:
    names = {name: path.name for name, path in vars(RunFolder(tmp_path)).items() if name != "path"}
    assert names == {
        "recipe": "recipe.json",
        "checkpoint": "checkpoint.safetensors",
        "previous": "previous.safetensors",
        "lock": ".lock",
        "best": "best.safetensors",
        "teacher": "teacher",
        "teachers": "teachers.json",
        "backbone": "backbone.safetensors",
        "log": "log.jsonl",
        "tensorboard": "tensorboard",
        "ending": "ending.json",
        "frozen_features": "frozen_features.safetensors",
        "versions": "versions.json",
        "results": "results.json",
        "bench": "bench.json",
        "model": "model.prunus",
        "plots": "plots",
        "report": "report.html",
    }


def test_a_recipe_or_a_checkpoint_is_a_run_that_has_begun(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.lock.touch()
    folder.log.touch()
    assert not folder.holds_run()
    for file in (folder.recipe, folder.checkpoint, folder.previous):
        file.touch()
        assert folder.holds_run()
        file.unlink()


def test_the_ending_of_a_run_is_read_if_there_is_a_readable_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_ending() is None
    folder.ending.write_text(
        '{"step": 4, "domains": {"a": {"usage": 0.5, "chance": 0.1}}, "union": 0.5, "has_switches": true, '
        '"findings": ["one"]}'
    )
    assert folder.read_ending() == Ending(4, {"a": DomainEnding(0.5, 0.1)}, 0.5, True, ("one",))
    folder.ending.write_text("{}")
    assert folder.read_ending() is None


def test_the_mean_accuracy_is_that_of_the_domains_with_validation_images() -> None:
    known, unknown = DomainEnding(0.5, 0.1, 10, 0.8), DomainEnding(0.5, 0.1)
    assert Ending(1, {"a": known, "b": unknown}, 0.5, True).mean_accuracy() == 0.8
    assert Ending(1, {"b": unknown}, 0.5, True).mean_accuracy() is None


def test_a_file_about_a_run_is_outdated_if_it_is_missing_or_older_than_the_saved_state(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.is_outdated(folder.results)
    folder.results.write_text("{}")
    assert not folder.is_outdated(folder.results)  # there is no saved state
    folder.checkpoint.write_bytes(b"")
    for seconds, expected in ((99, True), (100, False), (101, False)):
        os.utime(folder.checkpoint, (100, 100))
        os.utime(folder.results, (seconds, seconds))
        assert folder.is_outdated(folder.results) is expected
