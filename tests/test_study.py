"""The study of the paper's claims: its grid, one tiny run, its claims and its page."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import study, study_page
from benchmarks.study_claims import CLAIMS, scores
from benchmarks.study_grid import GRID, LONG, SOURCE, THREE, planned, recipe_of
from benchmarks.study_results import StudyRun, read_runs, write_run
from prunus.methods.table import choose_method
from prunus.training.planning import check_recipe
from tests.conftest import write_domain

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
    assert recipe_of(GRID["dual_rate-union-0.01"], 0, DOMAINS).training.dual_rate == 0.01
    assert recipe_of(GRID["order-ba2-mixed"], 0, DOMAINS).training.strategy == "mixed"
    assert recipe_of(GRID["union-0.25"], 0, DOMAINS).training.strategy == "round_robin"
    assert recipe_of(GRID["budget_per-macs"], 0, DOMAINS).method.options["budget_per"] == "macs"  # type: ignore[union-attr]
    assert GRID["union-0.25-long"].epochs == LONG


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


def made(name: str, seed: int = 0, **values: object) -> StudyRun:
    """Make up a run; accuracies are the same in every domain unless told."""
    row = GRID[name]
    accuracy = values.pop("accuracy", 0.7)
    content = {
        "name": name,
        "seed": seed,
        "split": row.split,
        "method": row.method,
        "budget": row.budget,
        "recipe": {"training": {"epochs": 20}},
        "versions": {"torch": "2"},
        "machine": "made up",
        "seconds": 1.0,
        "measuring_seconds": 0.0,
        "train_images": {"dtd": 9, "flowers": 10, "person": 20, "gtsrb": 300, "cub": 300},
        "images": dict.fromkeys(("dtd", "flowers", "person", "gtsrb", "cub"), 100),
        "accuracies": dict.fromkeys(("dtd", "flowers", "person", "gtsrb", "cub"), accuracy),
        "mean_accuracy": accuracy,
        "usage": {"dtd": 0.2},
        "domain_macs_ratio": {"dtd": 0.2},
        **dict.fromkeys(("union", "intersection", "sparsity", "macs_ratio"), 0.2),
        **dict.fromkeys(("params_ratio", "params_ratio_with_source"), 1.0),
        **dict.fromkeys(("stored_bytes", "model_bytes", "dense_bytes"), 1000),
        "budget_kept": True,
    }
    return StudyRun.model_validate(content | values)


def all_seeds(names: Sequence[str], **values: object) -> dict[tuple[str, int], StudyRun]:
    return {(name, seed): made(name, seed, **values) for name in names for seed in GRID[name].seeds}


def verdict(claim: str, *parts: dict[tuple[str, int], StudyRun]) -> str:
    runs: dict[tuple[str, int], StudyRun] = {}
    for part in parts:
        runs |= part
    return CLAIMS[claim].find(runs).verdict


BA2 = ("ba2-1", "ba2-0.75", "ba2-0.5", "ba2-0.25")
UNION = ("union-1", "union-0.75", "union-0.5", "union-0.25")


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_claim_is_judged_before_its_runs_are_measured(claim: str) -> None:
    assert CLAIMS[claim].find({}).verdict == "not enough runs"
    needed = all_seeds(CLAIMS[claim].needs)
    needed.pop(next(iter(needed)))
    assert CLAIMS[claim].find(needed).verdict == "not enough runs"
    assert set(CLAIMS[claim].needs) <= set(GRID)


def test_sharing_is_low_if_all_domains_together_use_nearly_everything() -> None:
    assert verdict("sharing", all_seeds(BA2, union=0.95)) == "holds"
    assert verdict("sharing", all_seeds(BA2, union=0.95), all_seeds(BA2[3:], union=0.74)) == "does not hold"


def test_the_best_ratio_is_that_of_the_largest_product_at_two_budgets() -> None:
    names = [f"learned-{loss}-{beta}" for loss in ("intersection", "jaccard") for beta in (0.75, 0.5, 0.25)]
    others = all_seeds(names, accuracy=0.8, sparsity=0.4)
    union = [f"learned-union-{beta}" for beta in (0.75, 0.5, 0.25)]
    better, worse = {"accuracy": 0.7, "sparsity": 0.5}, {"accuracy": 0.7, "sparsity": 0.4}
    assert verdict("ratio", others, all_seeds(union[:2], **better), all_seeds(union[2:], **worse)) == "holds"
    assert verdict("ratio", others, all_seeds(union[:1], **better), all_seeds(union[1:], **worse)) == "does not hold"


@pytest.mark.parametrize(("claim", "limit"), [("jaccard", 0.1), ("fixed", 0.05)])
def test_little_is_pruned_if_no_run_leaves_more_than_the_limit_unused(claim: str, limit: float) -> None:
    needed = CLAIMS[claim].needs
    assert verdict(claim, all_seeds(needed, sparsity=limit)) == "holds"
    assert verdict(claim, all_seeds(needed), all_seeds(needed[1:], sparsity=limit + 0.01)) == "does not hold"


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ((0.010, 0.012, 0.011), "holds"),
        ((0.030, 0.031, 0.032), "does not hold"),
        ((-0.01, -0.011, -0.012), "does not hold"),
        ((0.02, -0.02, 0.01), "cannot be told from noise"),
    ],
)
def test_what_training_together_costs_is_paired_over_the_seeds(lost: Sequence[float], expected: str) -> None:
    levels = (0.6, 0.7, 0.8)  # far apart: only the differences count
    runs = {("ba2_individual-0.25", seed): made("ba2_individual-0.25", seed, accuracy=levels[seed]) for seed in THREE}
    runs |= {("ba2-0.25", seed): made("ba2-0.25", seed, accuracy=levels[seed] - lost[seed]) for seed in THREE}
    assert verdict("simultaneous", runs) == expected


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [
        ((0.10, 0.11, 0.12), (0.02, 0.02, 0.02), "holds"),
        ((0.02, 0.02, 0.02), (0.10, 0.11, 0.12), "does not hold"),
        ((0.10, 0.00, 0.05), (0.05, 0.05, 0.05), "cannot be told from noise"),
    ],
)
def test_small_domains_lose_most_if_the_three_smallest_lose_more(
    small: Sequence[float], large: Sequence[float], expected: str
) -> None:
    runs = all_seeds(["ba2_individual-0.25"])
    for seed in THREE:
        lower = dict.fromkeys(("dtd", "flowers", "person"), 0.7 - small[seed])
        lower |= dict.fromkeys(("gtsrb", "cub"), 0.7 - large[seed])
        runs["union-0.25", seed] = made("union-0.25", seed, accuracies=lower)
    assert verdict("small", runs) == expected


def test_efficiency_is_compared_at_every_budget_with_the_scores_of_the_paper() -> None:
    base = all_seeds(("feature",), accuracy=0.65, macs_ratio=1.0) | all_seeds(("finetune",), accuracy=0.8)
    base |= all_seeds(BA2, macs_ratio=0.3) | all_seeds(UNION, macs_ratio=0.3)
    better = all_seeds(UNION[1:], macs_ratio=0.2)
    assert verdict("efficiency", base, better) == "holds"
    assert verdict("efficiency", base, better, all_seeds(UNION[2:3], macs_ratio=0.4)) == "does not hold"
    assert verdict("efficiency", base, better, all_seeds(UNION[2:3], macs_ratio=0.3)) == "cannot be told from noise"
    # by hand: E_max = 0.4, so S = 5 * 1000 * (0.1 / 0.4)^2 = 312.5
    assert scores(base)["ba2-0.5", 0].s == pytest.approx(312.5)
    assert scores(base)["ba2-0.5", 0].s_o == pytest.approx(312.5 / 0.3)


def test_macs_are_compared_below_the_full_budget_and_with_the_budget_itself() -> None:
    base = all_seeds(BA2, macs_ratio=0.24)
    assert verdict("macs", base, all_seeds(UNION, macs_ratio=0.2)) == "holds"
    assert verdict("macs", base, all_seeds(UNION, macs_ratio=0.3)) == "does not hold"
    assert verdict("macs", base, all_seeds(UNION, macs_ratio=0.24)) == "cannot be told from noise"
    assert verdict("budget", all_seeds(UNION, macs_ratio=0.24)) == "holds"
    assert verdict("budget", all_seeds(UNION), {("union-0.25", 2): made("union-0.25", 2, macs_ratio=0.26)}) == (
        "does not hold"
    )


def test_taps_is_larger_than_the_backbone_and_less_efficient() -> None:
    base = all_seeds(("feature",), accuracy=0.65) | all_seeds(("finetune",), accuracy=0.8) | all_seeds(UNION)
    names = ("taps-1", "taps-0.25")
    assert verdict("taps", base, all_seeds(names, params_ratio=4.0)) == "holds"
    assert verdict("taps", base, all_seeds(names, params_ratio=0.9)) == "does not hold"
    assert verdict("taps", base, all_seeds(names, params_ratio=4.0, accuracy=0.99)) == "does not hold"


def test_frozen_domains_share_less_than_half_and_orders_differ_by_a_point_at_most() -> None:
    union = all_seeds(["learned-union-0.25"], sparsity=0.6)
    assert verdict("freezing", union, all_seeds(["frozen-others"], sparsity=0.1)) == "holds"
    assert verdict("freezing", union, all_seeds(["frozen-others"], sparsity=0.5)) == "does not hold"
    orders = all_seeds(CLAIMS["orders"].needs)
    assert verdict("orders", orders) == "holds"
    assert verdict("orders", orders, all_seeds(["order-union-mixed"], accuracy=0.68)) == "does not hold"


def test_the_page_is_what_the_stored_results_make_of_it() -> None:
    page = study_page.PAGE.read_text()
    assert [found[1] for found in study_page.PLACE.findall(page)] == [
        "verdicts",
        "findings",
        "rows",
        "domains",
        "missing",
    ]
    assert study_page.with_results(page, read_runs()) == page
    assert read_runs().keys() <= set(planned())


def test_the_page_says_what_is_missing_and_shows_what_is_there() -> None:
    runs = all_seeds(BA2, union=0.95) | all_seeds(["finetune"], accuracy=0.8) | {("feature", 0): made("feature")}
    page = study_page.with_results(study_page.PAGE.read_text(), runs)
    assert (
        "**Without a sharing loss domains share few kernels: together they use almost all.** Here: **holds**." in page
    )
    assert "- β = 0.25: together 95.0% of the kernels" in page
    assert "`feature-seed1.json`" in page
    assert "`feature-seed0.json`" not in page
    assert "16 of 89 runs are measured. Machine: made up." in page
    assert "3 of 6 runs; missing: `ba2_individual-0.25`" in page
    assert "| `ba2-0.5` | test | 3 | 70.0 ± 0.0 | 0.950 | 0.200 |" in page
    empty = study_page.with_results(page, {})
    assert empty.count("Nothing has been measured yet") == len(CLAIMS) + 2
    assert "0 of 89 runs are measured. Missing: " in empty
