"""The studies of the paper's claims: their grid, one tiny run, and their pages."""

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import study, study_page
from benchmarks.studies import DEMO, NINE, STUDIES, Study, planned
from benchmarks.study_checks import own_recipe, portable, stale
from benchmarks.study_claims import claims_of
from benchmarks.study_grid import CLASSES, GRID, LONG, OURS, PAPER, SOURCE
from benchmarks.study_recipes import recipe_of
from benchmarks.study_results import read_runs, write_run
from prunus.backbone.zoo import ZOO
from prunus.config import Recipe
from prunus.data.layouts import open_domain
from prunus.methods.table import choose_method
from prunus.presets import PAPER_TRAINING
from prunus.training.planning import check_recipe
from tests.conftest import write_domain
from tests.makers.study_runs import DEMO_IMAGES, all_seeds, made

DOMAINS = ["data/dtd.zip", f"data/{SOURCE}.zip"]
CLAIM = """
import sys
from dataclasses import replace
from pathlib import Path
from benchmarks import study
from benchmarks.studies import NINE
copy = replace(NINE, results=Path(sys.argv[1]), runs=Path(sys.argv[2]))
claims = [study.claimed(copy, "bn", seed) for seed in (0, 1, 2)]
print(*[claim.__enter__() for claim in claims])
for claim in claims:
    claim.__exit__(None, None, None)
"""


def first(name: str) -> Recipe:
    """Return the recipe of a row of the large study."""
    return recipe_of(NINE, name, 0, DOMAINS)


def demo_recipe(name: str, seed: int = 0) -> Recipe:
    """Return the recipe of a row of the small study."""
    assert DEMO.domains is not None
    return recipe_of(DEMO, name, seed, DEMO.domains)


def check_row(study: Study, name: str, domains: Sequence[str]) -> Recipe:
    """Check what the recipes of both studies have in common."""
    row = GRID[name]
    recipe = recipe_of(study, name, row.seeds[-1], domains)
    check_recipe(recipe)
    assert choose_method(recipe).name == row.method
    assert recipe.seed == row.seeds[-1]
    assert recipe.training.num_epochs == study.epochs * row.epochs
    assert recipe.training.splits == ("train" if row.split == "validation" else "train+validation")
    assert recipe.backbone.name == study.backbone
    return recipe


@pytest.mark.parametrize("name", GRID)
def test_every_row_of_the_large_study_is_a_recipe_that_can_be_trained(name: str) -> None:
    row = GRID[name]
    recipe = check_row(NINE, name, DOMAINS)
    assert [choice.name for choice in recipe.domains] == ["dtd"] + [SOURCE] * (not row.source_apart)
    assert recipe.source == (None if row.source_apart else SOURCE)


@pytest.mark.parametrize("name", DEMO.rows)
def test_every_row_of_the_small_study_is_a_recipe_that_can_be_trained(name: str) -> None:
    assert DEMO.domains is not None
    recipe = check_row(DEMO, name, DEMO.domains)
    assert tuple(choice.path for choice in recipe.domains) == DEMO.domains
    assert [choice.name for choice in recipe.domains] == list(DEMO_IMAGES)
    assert all(choice.mirrored for choice in recipe.domains)
    assert recipe.source is None
    assert recipe.evaluation.crops == 1
    chosen = DEMO.ours if GRID[name].method == "exact" else DEMO.paper
    assert recipe.training.batch_size == chosen["batch_size"]
    assert portable(recipe)["domains"] == recipe.model_dump(mode="json")["domains"]  # there is no folder in it


def test_the_large_study_has_the_settings_of_its_stored_runs() -> None:
    assert (NINE.device, NINE.backbone, NINE.epochs, NINE.source) == ("cuda", "wrn28_4", 20, SOURCE)
    assert (NINE.paper, NINE.ours, NINE.small, NINE.domains) == (PAPER, OURS, 3, None)
    assert {PAPER["batch_size"], OURS["batch_size"]} == {64}
    assert list(NINE.rows) == list(GRID)


def test_the_studies_share_no_file_and_the_small_one_leaves_out_the_rows_that_need_a_source() -> None:
    for key in ("page", "results", "runs"):
        assert len({getattr(study, key) for study in STUDIES.values()}) == len(STUDIES)
    assert GRID.keys() - DEMO.rows.keys() == {"union-0.25-source_apart", "exact-0.25-source_apart"}
    assert "union-0.25-long" in DEMO.rows
    assert len(list(planned(DEMO))) == 87


def test_the_rows_differ_where_their_names_say() -> None:
    assert choose_method(first("fixed-jaccard-0.125")).weight == 0.125
    assert choose_method(first("learned-jaccard-0.25")).weight == "learned"
    assert choose_method(first("frozen-others")).freezes_others
    slow = first("dual_rate-union-0.01").training
    assert (slow.sharing_dual_rate, slow.dual_rate) == (0.01, 0.5)  # the budget's stays the same
    assert first("order-ba2-mixed").training.strategy == "mixed"
    assert first("union-0.25").training.strategy == "round_robin"
    assert first("budget_per-macs").method.options["budget_per"] == "macs"  # type: ignore[union-attr]
    assert GRID["union-0.25-long"].epochs == LONG


def test_weights_that_are_trained_decay_and_masks_do_not() -> None:
    decays = {row.method: first(name).training.weight_decay for name, row in GRID.items()}
    assert {method for method, decay in decays.items() if decay == 5e-4} == {
        "finetune",
        "taps",
        "parallel_adapters",
        "exact",
    }
    assert {decay for decay in decays.values() if decay != 5e-4} == {0.0}


def test_the_runs_that_most_claims_need_come_first_with_all_their_seeds() -> None:
    runs = list(planned(NINE))
    assert len(runs) == len(set(runs)) == 89
    for study_runs in (runs, list(planned(DEMO))):
        names = {name for name, _ in study_runs[:15]}
        assert names == {"feature", "finetune", "ba2-0.25", "union-0.25", "ba2_individual-0.25"}


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
    assert "all of these runs are finished; --out FOLDER trains them again" in capsys.readouterr().out
    assert json.loads(written)["recipe"]["training"]["strategy"] == "round_robin"


def test_a_stored_run_of_another_recipe_is_named_and_nothing_is_trained_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("dtd", SOURCE):
        write_domain(tmp_path / "data" / name)
    domains = [str(tmp_path / "data" / name) for name in ("dtd", SOURCE)]
    recipe = recipe_of(NINE, "finetune", 1, domains)
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


@pytest.mark.parametrize("chosen", STUDIES.values(), ids=STUDIES)
def test_every_stored_run_has_the_recipe_of_the_grid(chosen: Study) -> None:
    runs = read_runs(chosen.results)
    assert stale(runs, {key: own_recipe(chosen, run) for key, run in runs.items()}) == []
    assert all(run.accuracies.keys() <= CLASSES.keys() for run in runs.values())


def test_a_stored_run_of_other_domains_or_another_network_is_stale() -> None:
    recipe = recipe_of(replace(DEMO, backbone="wrn28_4"), "feature", 0, ["demo:signs"])
    run = made("feature", recipe=portable(recipe), train_images=DEMO_IMAGES)
    differences = stale({("feature", 0): run}, {("feature", 0): own_recipe(DEMO, run)})
    assert "feature-seed0.json: backbone.name: wrn28_4 -> wrn14_2" in differences
    assert any("domains" in difference for difference in differences)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "needs DATA, the folder with a zip file or folder per domain; .* give --study demo"),
        (["--study", "demo", "data"], "the study 'demo' trains on the bundled images; leave out 'data'"),
        (["--study", "demo", "--only", "union-0.25-source_apart"], "'demo' has no row 'union-0.25-source_apart'"),
        (["--study", "ten"], "invalid choice: 'ten'"),
    ],
)
def test_options_that_do_not_fit_the_study_are_refused(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        study.main([*arguments, "--list"])
    assert re.search(expected, " ".join(capsys.readouterr().err.split()))


def test_the_small_study_needs_no_data_and_lists_its_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, made("feature", 1, recipe=portable(demo_recipe("feature", 1)), train_images=DEMO_IMAGES))
    study.main(["--study", "demo", "--out", str(tmp_path), "--list"])
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 87
    assert listed[:2] == [
        f"1/87 feature seed 0: train+validation, {DEMO.epochs} epochs",
        f"2/87 feature seed 1: train+validation, {DEMO.epochs} epochs, finished",
    ]
    study.main(["--study", "demo", "--out", str(tmp_path), "--seconds", "-1"])
    assert read_runs(tmp_path).keys() == {("feature", 1)}


def test_options_change_the_study_and_what_is_left_out_stays() -> None:
    options = ["--epochs", "2", "--device", "cuda", "--out", "other", "--runs", "folder", "--backbone", "wrn28_4"]
    changed = study.study_of(study.read_options(["--study", "demo", *options]))
    expected = {"epochs": 2, "device": "cuda", "results": Path("other"), "runs": Path("folder"), "backbone": "wrn28_4"}
    assert changed == replace(DEMO, **expected)  # type: ignore[arg-type]
    assert study.study_of(study.read_options(["--study", "demo"])) == DEMO
    assert study.study_of(study.read_options(["--device", "cuda", "data"])) == NINE


def test_the_images_of_the_small_study_are_those_that_its_page_names() -> None:
    recipe = demo_recipe("feature")
    assert study.train_images(recipe) == DEMO_IMAGES
    opened = [open_domain(choice, recipe.training.validation_share) for choice in recipe.domains]
    assert all(len(domain.classes) == CLASSES[domain.name] for domain in opened)
    tested = [len(domain.test) for domain in opened]
    validated = sum(len(domain.validation) for domain in opened)
    text = DEMO.page.read_text()
    low, high = min(DEMO_IMAGES.values()), max(DEMO_IMAGES.values())
    assert f"five, of {low} to {high} training images and {min(tested)} to {max(tested)} test images" in text
    assert f"**Test images:** {sum(tested):,} in five domains." in text
    assert f"**Validation images:** {validated}." in text
    assert f"`{DEMO.backbone}`, pretrained on Tiny-ImageNet at {ZOO[DEMO.backbone].size} px" in text


def test_the_page_of_the_small_study_shows_the_settings_that_it_trains_with() -> None:
    text = DEMO.page.read_text()
    trained = demo_recipe("union-0.25").training
    for title, key in (
        ("epochs", "epochs"),
        ("batch size", "batch_size"),
        ("rate of norms and classifiers", "lr"),
        ("rate of switches", "switch_lr"),
    ):
        values = (PAPER_TRAINING[key], getattr(first("union-0.25").training, key), getattr(trained, key))
        assert f"| {title} | {' | '.join(f'{value:g}' for value in values)} |" in text
    ours = demo_recipe("exact-0.25").training
    for title, number in (
        ("batch size of `exact`", ours.batch_size),
        ("rate of switches in `exact`", ours.switch_rate),
    ):
        assert re.search(rf"^\| {title} \|  \| [\d.]+ \| {number:g} \|$", text, re.MULTILINE)
    assert (ours.schedule, trained.schedule) == ("cosine", "step")
    assert (trained.lr_drops, trained.lr_drop_factor) == ((0.75,), 0.1)
    rates = [demo_recipe(name).training.weight_lr or 0.0 for name in ("finetune", "parallel_adapters")]
    plain = " ".join(text.split())
    assert "Fine-tuning has a rate of {:g} and parallel adapters {:g}, as in the large study".format(*rates) in plain


def test_processes_share_the_missing_runs(tmp_path: Path) -> None:
    copy = replace(NINE, results=tmp_path / "results", runs=tmp_path / "runs")
    write_run(copy.results, made("bn", 1))
    with study.claimed(copy, "bn", 0) as is_ours:
        assert is_ours
        found = subprocess.run(
            [sys.executable, "-c", CLAIM, str(copy.results), str(copy.runs)], check=True, capture_output=True, text=True
        )
        assert found.stdout == "False False True\n"  # another one trains it; it is finished; it is free
        write_run(copy.results, made("bn", 0))
    with study.claimed(copy, "bn", 0) as is_ours:
        assert not is_ours
    assert not list(copy.runs.iterdir())


def test_a_run_whose_process_died_is_free_again(tmp_path: Path) -> None:
    copy = replace(NINE, results=tmp_path / "results", runs=tmp_path / "runs")
    copy.runs.mkdir()
    (copy.runs / "bn-0.lock").touch()
    with study.claimed(copy, "bn", 0) as is_ours:
        assert is_ours


@pytest.mark.parametrize("chosen", STUDIES.values(), ids=STUDIES)
def test_the_page_is_what_the_stored_results_make_of_it(chosen: Study) -> None:
    page = chosen.page.read_text()
    expected = [name for name in study_page.PARTS if name != "settings" or chosen is DEMO]
    assert [found[1] for found in study_page.PLACE.findall(page)] == expected
    runs = read_runs(chosen.results)
    assert study_page.with_results(page, runs, chosen) == page
    assert runs.keys() <= set(planned(chosen))


def test_each_page_is_written_alone_or_with_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = "<!-- missing -->\n<!-- end -->"
    copies = {
        name: replace(chosen, page=tmp_path / name, results=tmp_path / "results" / name)
        for name, chosen in STUDIES.items()
    }
    for copy in copies.values():
        copy.page.write_text(empty)
    monkeypatch.setattr(study_page, "STUDIES", copies)
    study_page.main(["--study", "demo"])
    assert copies["nine"].page.read_text() == empty
    assert "0 of 87 runs are measured." in copies["demo"].page.read_text()
    study_page.main([])
    assert "0 of 89 runs are measured." in copies["nine"].page.read_text()


def test_the_page_says_what_is_missing_and_shows_what_is_there() -> None:
    runs = (
        all_seeds(["ba2-1", "ba2-0.75", "ba2-0.5", "ba2-0.25"], union=0.95)
        | all_seeds(["finetune"], accuracy=0.8)
        | {("feature", 0): made("feature")}
    )
    page = study_page.with_results(NINE.page.read_text(), runs, NINE)
    assert (
        "**Without a sharing loss domains share few kernels: together they use almost all.** Here: **holds**." in page
    )
    assert "- β = 0.25: together 0.950 of the kernels" in page
    assert "`feature` (seed 1, 2)" in page
    assert "**Some results are missing: 16 of 89 runs are measured.** Claims [2](#claim-2), " in page
    assert "16 of 89 runs are measured. Machine: made up." in page
    assert "3 of 6 runs; missing: `ba2_individual-0.25`" in page
    assert "| `ba2-0.5` | test | 3 | 70.0 ± 0.0 | 0.950 | 0.200 |" in page
    for chosen, total in ((NINE, 89), (DEMO, 87)):
        empty = study_page.with_results(chosen.page.read_text(), {}, chosen)
        assert empty.count("Nothing has been measured yet") == len(claims_of(chosen)) + 2
        assert f"0 of {total} runs are measured. Missing: " in empty


def test_a_study_without_a_source_domain_shows_no_scores_without_it() -> None:
    runs = all_seeds(list(DEMO.rows), train_images=DEMO_IMAGES) | all_seeds(
        ["finetune"], accuracy=0.8, train_images=DEMO_IMAGES
    )
    table = study_page.rows(runs, DEMO)
    assert "| MB | S | S_O | S_P | S_E | seconds |" in table
    assert "| MB | S | S_O | S_P | S_E | S* | S_E* | seconds |" in study_page.rows(runs, NINE)
    lines = table.splitlines()
    assert len(lines) == 2 + len(DEMO.rows)
    assert len({line.count("|") for line in lines}) == 1
    assert study_page.absent(runs, DEMO) == ""
    assert study_page.missing(runs, DEMO).startswith("87 of 87 runs are measured. Machine: made up.")
    assert "Missing" not in study_page.missing(runs, DEMO)
    shown = "".join(part(runs, DEMO) for part in study_page.PARTS.values())
    assert "source" not in shown
    assert "| row | characters | clothing | fashion | fruits | signs |" in shown
    assert "not enough runs" not in shown


def test_the_page_of_recipes_quotes_how_training_loses_the_source_domain() -> None:
    runs = read_runs(NINE.results)
    text = " ".join((NINE.page.parent / "recipes.md").read_text().split())
    frozen, trained = (
        100 * statistics.fmean(runs[name, seed].accuracies[SOURCE] for seed in (0, 1, 2))
        for name in ("feature", "finetune")
    )
    assert (
        f"frozen features classify {frozen:.1f} % of its test images correctly, fine-tuned networks {trained:.1f} %"
        in text
    )
