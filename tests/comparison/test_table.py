"""Results become rows, scored against fine-tuning and the feature extractor."""

import csv
from pathlib import Path

import numpy as np
import pytest

from prunus.comparison.execution import Outcome
from prunus.comparison.plan import Entry, changed_options
from prunus.comparison.table import is_complete, tabulate, tabulate_sweep, write_table
from prunus.measure.comparison import Comparison
from prunus.measure.evaluation import Evaluation
from prunus.recipes import parse_recipe
from prunus.report.comparison import to_csv, to_markdown
from tests.makers.run_folders import results

RECIPE = parse_recipe({"backbone": "wrn14_2", "domains": ["birds", "flowers"], "seed": 4, "training": {"epochs": 3}})


def _entry(group: str, seed: int = 0, **method: object) -> Entry:
    content = {"backbone": "wrn14_2", "domains": ["birds", "flowers"], "seed": seed, **method}
    recipe = parse_recipe(content)
    return Entry(f"{group}-seed{seed}" if seed else group, recipe, group, changed_options(recipe))


ENTRIES = [
    _entry("feature", method="feature"),
    _entry("union-0.5", method="union", budget=0.5, sharing={"weight": 2.0}),
    _entry("bn", method="bn"),
    _entry("finetune", method="finetune"),
]


def _measured(method: str, budget: float | None, birds: float, flowers: float, **more: object) -> Evaluation:
    costs = {"feature": (1.0, 1.0), "finetune": (2.0, 1.0), "union": (0.5, 0.25)}[method]
    return Evaluation.model_validate(results(method, budget, {"birds": birds, "flowers": flowers}, costs, **more))


OUTCOME = Outcome(
    {
        "finetune": _measured("finetune", None, 0.8, 0.6, seconds=1.0),
        "feature": _measured("feature", None, 0.7, 0.5, seconds=2.0),
        "union-0.5": _measured("union", 0.5, 0.9, 0.6, seconds=3.5, union=0.45, stored_bytes=77),
    },
    {"bn": "the loss is not a number"},
)


def _comparison() -> Comparison:
    return tabulate(ENTRIES, OUTCOME, RECIPE, "validation")


def test_a_table_needs_the_rows_that_scores_compare_with() -> None:
    assert is_complete(ENTRIES, OUTCOME)
    for name in ("feature", "finetune"):
        without = Outcome({key: OUTCOME.results[key] for key in OUTCOME.results if key != name}, {})
        assert not is_complete(ENTRIES, without)
    assert not is_complete([*ENTRIES, _entry("finetune", 1, method="finetune")], OUTCOME)


def test_rows_are_in_the_order_of_the_plan_and_failures_are_named() -> None:
    comparison = _comparison()
    assert [row.name for row in comparison.rows] == ["feature", "union-0.5", "finetune"]
    assert comparison.failed == {"bn": "the loss is not a number"}
    assert (comparison.domains, comparison.backbone, comparison.split) == (
        ("birds", "flowers"),
        "wrn14_2",
        "validation",
    )
    assert comparison.settings["seed"] == 4
    assert not {"domains", "method", "sharing", "budget"} & comparison.settings.keys()


def test_a_row_holds_what_was_measured() -> None:
    row = _comparison().rows[1]
    assert (row.method, row.budget, row.options) == ("union", 0.5, {"weight": 2.0})
    assert row.largest_usage == pytest.approx(0.4)
    assert row.union == 0.45
    assert (row.params_ratio, row.macs_ratio, row.stored_bytes) == (0.5, 0.25, 77)
    assert row.accuracies == {"birds": 0.9, "flowers": 0.6}
    assert (row.mean_accuracy, row.seconds) == (0.75, 3.5)


def test_scores_compare_with_fine_tuning_and_the_feature_extractor() -> None:
    scores = _comparison().rows[1].scores
    expected = 1000 * ((0.4 - 0.1) / 0.4) ** 2 + 1000 * ((0.8 - 0.4) / 0.8) ** 2
    feature = 1000 * ((0.4 - 0.3) / 0.4) ** 2 + 1000 * ((0.8 - 0.5) / 0.8) ** 2
    assert scores is not None
    assert scores.s == pytest.approx(expected)
    assert scores.s_o == pytest.approx(expected / 0.25)
    assert scores.s_p == pytest.approx(expected / 0.5)
    assert scores.s_e == pytest.approx(expected / 0.25 * expected / 0.5 / feature**2)


def test_every_format_is_written(tmp_path: Path) -> None:
    comparison = _comparison()
    write_table(tmp_path, "comparison", comparison)
    assert Comparison.model_validate_json((tmp_path / "comparison.json").read_bytes()) == comparison
    assert len(list(csv.reader((tmp_path / "comparison.csv").read_text().splitlines()))) == 4
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".json", ".md", ".tex"]


SEEDS = (0, 1, 2)
SEEDED = [
    _entry(group, seed, method=method, **more)
    for group, method, more in (
        ("feature", "feature", {}),
        ("finetune", "finetune", {}),
        ("union-0.5", "union", {"budget": 0.5}),
    )
    for seed in SEEDS
]
UNION = {0: (0.9, 0.6), 1: (0.8, 0.7), 2: (0.85, 0.5)}
FINETUNED = {0: (0.8, 0.6), 1: (0.9, 0.7), 2: (0.85, 0.8)}


def _seeded() -> Outcome:
    def name(group: str, seed: int) -> str:
        return f"{group}-seed{seed}" if seed else group

    measured = {name("feature", seed): _measured("feature", None, 0.7, 0.5) for seed in SEEDS}
    measured |= {name("finetune", seed): _measured("finetune", None, *FINETUNED[seed]) for seed in SEEDS}
    sizes = {seed: {"stored_bytes": 70 + seed, "union": 0.4 + seed / 100} for seed in SEEDS}
    measured |= {name("union-0.5", seed): _measured("union", 0.5, *UNION[seed], **sizes[seed]) for seed in SEEDS}
    return Outcome(measured, {})


def test_seeds_are_joined_into_one_row_with_mean_and_standard_deviation() -> None:
    comparison = tabulate(SEEDED, _seeded(), RECIPE, "test")
    assert [(row.name, row.seeds) for row in comparison.rows] == [
        ("feature", SEEDS),
        ("finetune", SEEDS),
        ("union-0.5", SEEDS),
    ]
    row = comparison.rows[2]
    means = np.array(list(UNION.values())).mean(1)
    assert row.spread is not None
    assert row.mean_accuracy == pytest.approx(means.mean())
    assert row.spread.mean_accuracy == pytest.approx(means.std(ddof=1))
    assert row.spread.accuracies["flowers"] == pytest.approx(np.std([0.6, 0.7, 0.5], ddof=1))
    assert (row.stored_bytes, row.spread.stored_bytes, row.spread.params_ratio) == (71, 1.0, 0.0)
    assert row.largest_usage == pytest.approx(0.4)


def test_scores_of_every_seed_compare_with_the_mean_accuracies_of_fine_tuning() -> None:
    row = tabulate(SEEDED, _seeded(), RECIPE, "test").rows[2]
    largest = 2 * (1 - np.array(list(FINETUNED.values())).mean(0))
    scores = (1000 * (np.maximum(0, largest - 1 + np.array(list(UNION.values()))) / largest) ** 2).sum(1)
    assert row.scores is not None
    assert row.spread is not None
    assert row.spread.scores is not None
    assert row.scores.s == pytest.approx(scores.mean())
    assert row.spread.scores.s == pytest.approx(scores.std(ddof=1))
    assert row.spread.scores.s_o == pytest.approx((scores / 0.25).std(ddof=1))


def test_a_row_lists_the_seeds_that_were_measured() -> None:
    outcome = _seeded()
    del outcome.results["union-0.5-seed1"], outcome.results["union-0.5-seed2"]
    row = tabulate(SEEDED, outcome, RECIPE, "test").rows[2]
    assert (row.seeds, row.spread, row.mean_accuracy) == ((0,), None, 0.75)


def test_a_sweep_has_no_scores_and_names_the_rows_of_its_fronts() -> None:
    sweep = tabulate_sweep(SEEDED, _seeded(), RECIPE, "test")
    assert all(row.scores is None for row in sweep.rows)
    assert sweep.fronts == {"stored_bytes": ("union-0.5", "finetune"), "macs_ratio": ("union-0.5", "finetune")}


def test_a_domain_that_some_row_lacks_is_in_no_row_and_named_below_the_table() -> None:
    rows = {name: _measured(name, None, 0.8, 0.6) for name in ("finetune", "feature")}
    partial = rows["finetune"].model_dump(mode="json")
    del partial["domains"]["flowers"]
    rows["finetune"] = Evaluation.model_validate(partial | {"unmeasured": {"flowers": "flowers has no test images"}})
    entries = [ENTRIES[0], ENTRIES[3]]
    swept = tabulate_sweep(entries, Outcome(rows, {}), RECIPE, "test")
    assert swept.domains == ("birds",)
    assert swept.unmeasured == {"flowers": "flowers has no test images"}
    assert to_markdown(swept).endswith("skipped: flowers has no test images\n")
    assert "flowers" not in to_csv(swept)
    assert _comparison().unmeasured == {}
