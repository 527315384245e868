"""Results become rows, scored against fine-tuning and the feature extractor."""

import csv
from pathlib import Path

import pytest

from prunus.comparison.plan import Entry
from prunus.comparison.table import is_complete, tabulate, write_comparison
from prunus.comparison.trials import Outcome
from prunus.measure.comparison import Comparison
from prunus.measure.evaluation import Evaluation
from prunus.recipes import parse_recipe
from tests.makers.run_folders import results

RECIPE = parse_recipe({"backbone": "wrn14_2", "domains": ["birds", "flowers"], "seed": 4, "training": {"epochs": 3}})


def _entry(name: str, **method: object) -> Entry:
    return Entry(name, parse_recipe({"backbone": "wrn14_2", "domains": ["birds", "flowers"], **method}))


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
    assert is_complete(OUTCOME)
    for name in ("feature", "finetune"):
        assert not is_complete(Outcome({key: OUTCOME.results[key] for key in OUTCOME.results if key != name}, {}))


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
    write_comparison(tmp_path, comparison)
    assert Comparison.model_validate_json((tmp_path / "comparison.json").read_bytes()) == comparison
    assert len(list(csv.reader((tmp_path / "comparison.csv").read_text().splitlines()))) == 4
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".json", ".md", ".tex"]
