"""Finding and reading runs: which folders are runs, how they are named, and what stays private."""

from pathlib import Path

from prunus.report.page.reading import find_runs, read_run, run_names
from tests.makers.run_folders import results, write_run


def test_folders_of_runs_and_files_of_comparisons_may_be_named(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "runs" / "a"), write_run(tmp_path / "runs" / "compare" / "b")
    table = tmp_path / "runs" / "compare" / "comparison.csv"
    table.write_text("")
    assert find_runs([tmp_path / "runs"]) == ([first, second], {})
    assert find_runs([second, table, tmp_path / "runs" / "compare"]) == ([second], {})


def test_names_are_as_short_as_they_can_be() -> None:
    assert run_names([Path("/x/a"), Path("/x/b")]) == ["a", "b"]
    assert run_names([Path("/x/a"), Path("/y/a"), Path("/y/b")]) == ["x/a", "y/a", "y/b"]


def test_a_log_that_was_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a"), "a")
    assert [epoch.epoch for epoch in run.epochs] == [0, 1, 2]


def test_of_the_recipe_no_place_on_the_machine_is_told(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "a"), "a")
    assert run.recipe["domains.0.path"] == '"birds"'
    assert not any("somebody" in value for value in run.recipe.values())
    assert "root" not in run.recipe


def test_a_domain_that_was_skipped_is_a_note(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", results(unmeasured={"signs": "domain 'signs' has no test images"}))
    assert read_run(folder, "a").notes == ("Not measured: domain 'signs' has no test images.",)
