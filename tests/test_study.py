"""The study of the paper's claims: its grid, one tiny run, and its page."""

import itertools
import json
from pathlib import Path

import pytest

from benchmarks import study, study_page
from benchmarks.study_checks import own_recipe, portable, stale
from benchmarks.study_claims import CLAIMS
from benchmarks.study_grid import CLASSES, GRID, LONG, SOURCE, planned, recipe_of
from benchmarks.study_results import read_runs, write_run
from prunus.methods.table import choose_method
from prunus.training.planning import check_recipe
from tests.conftest import write_domain
from tests.makers.study_runs import all_seeds, made

DOMAINS = [Path("data/dtd.zip"), Path(f"data/{SOURCE}.zip")]


@pytest.mark.parametrize("name", GRID)
def test_every_row_of_the_grid_is_a_recipe_that_can_be_trained(name: str) -> None:
    row = GRID[name]
    recipe = recipe_of(row, row.seeds[-1], DOMAINS)
    check_recipe(recipe)
    assert choose_method(recipe).name == row.method
    assert recipe.seed == row.seeds[-1]
    assert recipe.training.num_epochs == 20 * row.epochs
    assert recipe.training.splits == ("train" if row.split == "validation" else "train+validation")
    assert [choice.name for choice in recipe.domains] == ["dtd"] + [SOURCE] * (not row.source_apart)
    assert recipe.source == (None if row.source_apart else SOURCE)


def test_the_rows_differ_where_their_names_say() -> None:
    fixed = recipe_of(GRID["fixed-jaccard-0.125"], 0, DOMAINS)
    assert choose_method(fixed).weight == 0.125
    assert choose_method(recipe_of(GRID["learned-jaccard-0.25"], 0, DOMAINS)).weight == "learned"
    assert choose_method(recipe_of(GRID["frozen-others"], 0, DOMAINS)).freezes_others
    slow = recipe_of(GRID["dual_rate-union-0.01"], 0, DOMAINS).training
    assert (slow.sharing_dual_rate, slow.dual_rate) == (0.01, 0.5)  # the budget's stays the same
    assert recipe_of(GRID["order-ba2-mixed"], 0, DOMAINS).training.strategy == "mixed"
    assert recipe_of(GRID["union-0.25"], 0, DOMAINS).training.strategy == "round_robin"
    assert recipe_of(GRID["budget_per-macs"], 0, DOMAINS).method.options["budget_per"] == "macs"  # type: ignore[union-attr]
    assert GRID["union-0.25-long"].epochs == LONG


def test_weights_that_are_trained_decay_and_masks_do_not() -> None:
    decays = {row.method: recipe_of(row, 0, DOMAINS).training.weight_decay for row in GRID.values()}
    assert {method for method, decay in decays.items() if decay == 5e-4} == {
        "finetune",
        "taps",
        "parallel_adapters",
        "exact",
    }
    assert {decay for decay in decays.values() if decay != 5e-4} == {0.0}


def test_the_runs_that_most_claims_need_come_first_with_all_their_seeds() -> None:
    runs = list(planned())
    assert len(runs) == len(set(runs)) == 89
    first = {name for name, _ in runs[:15]}
    assert first == {"feature", "finetune", "ba2-0.25", "union-0.25", "ba2_individual-0.25"}


def test_a_tiny_study_is_trained_once_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("dtd", SOURCE):
        write_domain(tmp_path / "data" / name, train=10)
    out, runs = tmp_path / "out", tmp_path / "runs"
    command = [str(tmp_path / "data"), "--device", "cpu", "--backbone", "wrn14_2", "--epochs", "1"]
    command += ["--out", str(out), "--runs", str(runs), "--only", "union-0.25-source_apart"]
    study.main([*command, "--list"])
    assert "1/1 union-0.25-source_apart seed 0: train+validation, 1 epochs\n" in capsys.readouterr().out
    study.main([*command, "--seconds", "-1"])
    assert read_runs(out) == {}
    study.main(command)
    run = read_runs(out)["union-0.25-source_apart", 0]
    assert run.train_images == {"dtd": 20}
    assert run.images == {"dtd": 4}
    assert run.accuracies["dtd"] * 4 % 1 == 0
    assert run.params_ratio_with_source >= 1  # the source keeps the whole backbone
    assert run.method == "union"
    assert run.budget == 0.25
    assert not list(runs.iterdir())
    written = (out / run.file).read_text()
    assert str(tmp_path) not in written
    before = (out / run.file).stat().st_mtime_ns
    study.main(command)
    assert (out / run.file).stat().st_mtime_ns == before
    assert json.loads(written)["recipe"]["training"]["strategy"] == "round_robin"


def test_a_stored_run_of_another_recipe_is_named_and_nothing_is_trained_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("dtd", SOURCE):
        write_domain(tmp_path / "data" / name)
    domains = [tmp_path / "data" / name for name in ("dtd", SOURCE)]
    recipe = recipe_of(GRID["finetune"], 1, domains)
    out = tmp_path / "out"
    stored = portable(recipe)
    write_run(out, made("finetune", 1, recipe=stored))
    assert stale(read_runs(out), {("finetune", 1): recipe}) == []
    assert isinstance(stored["training"], dict)
    stored["training"] |= {"weight_decay": 0.0}
    write_run(out, made("finetune", 1, recipe=stored))
    command = [str(tmp_path / "data"), "--out", str(out), "--only", "finetune"]
    with pytest.raises(SystemExit, match=r"finetune-seed1\.json: training\.weight_decay: 0\.0 -> 0\.0005"):
        study.main(command)
    study.main([*command, "--list"])
    listed = capsys.readouterr().out
    assert "2/3 finetune seed 1: train+validation, 20 epochs, finished\n" in listed
    assert "other recipe: finetune-seed1.json: training.weight_decay: 0.0 -> 0.0005\n" in listed


def test_every_stored_run_has_the_recipe_of_the_grid() -> None:
    runs = read_runs()
    assert stale(runs, {key: own_recipe(run) for key, run in runs.items()}) == []
    assert all(run.accuracies.keys() <= CLASSES.keys() for run in runs.values())


def test_processes_share_the_missing_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, made("bn", 1))
    runs = list(planned())
    shares = [study.share_of(runs, tmp_path, place, 3) for place in (1, 2, 3)]
    assert sorted(itertools.chain(*shares)) == sorted(set(runs) - {("bn", 1)})
    assert [len(share) for share in shares] == [30, 29, 29]
    for wrong in ("3/2", "0/2", "2"):
        with pytest.raises(SystemExit):
            study.main([str(tmp_path), "--part", wrong])
        assert f"'{wrong}' is not a part" in capsys.readouterr().err


def test_the_page_is_what_the_stored_results_make_of_it() -> None:
    page = study_page.PAGE.read_text()
    assert [found[1] for found in study_page.PLACE.findall(page)] == [
        "absent",
        "verdicts",
        "findings",
        "others",
        "rows",
        "domains",
        "missing",
    ]
    assert study_page.with_results(page, read_runs()) == page
    assert read_runs().keys() <= set(planned())


def test_the_page_says_what_is_missing_and_shows_what_is_there() -> None:
    runs = (
        all_seeds(["ba2-1", "ba2-0.75", "ba2-0.5", "ba2-0.25"], union=0.95)
        | all_seeds(["finetune"], accuracy=0.8)
        | {("feature", 0): made("feature")}
    )
    page = study_page.with_results(study_page.PAGE.read_text(), runs)
    assert (
        "**Without a sharing loss domains share few kernels: together they use almost all.** Here: **holds**." in page
    )
    assert "- β = 0.25: together 0.950 of the kernels" in page
    assert "`feature` (seed 1, 2)" in page
    assert "**Part of the evidence is absent: 16 of 89 runs are measured.** Of claims [2](#claim-2), " in page
    assert "16 of 89 runs are measured. Machine: made up." in page
    assert "3 of 6 runs; missing: `ba2_individual-0.25`" in page
    assert "| `ba2-0.5` | test | 3 | 70.0 ± 0.0 | 0.950 | 0.200 |" in page
    empty = study_page.with_results(page, {})
    assert empty.count("Nothing has been measured yet") == len(CLAIMS) + 2
    assert "0 of 89 runs are measured. Missing: " in empty
