"""The typed results read the files of earlier versions and write the same keys again."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from prunus.measure.comparison import Comparison, ComparisonRow
from prunus.measure.evaluation import Demonstration, Evaluation
from prunus.measure.result import Result
from prunus.measure.speed import Benchmark
from tests.makers.run_folders import results

DOCS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        (Evaluation, "demo/results.json"),
        (Comparison, "compare/comparison.json"),
        (Benchmark, "benchmarks/demo_speed.json"),
    ],
)
def test_a_written_result_is_read_and_written_with_the_same_content(kind: type[Result], file: str) -> None:
    content = (DOCS / file).read_text()
    read = kind.model_validate_json(content)
    assert json.dumps(read.model_dump(mode="json")) == json.dumps(json.loads(content))  # also in the same order


def test_a_comparison_of_an_earlier_version_keeps_its_keys() -> None:
    content = json.loads((DOCS / "compare/comparison.json").read_text())
    for part in (content, *content["rows"]):
        for key in (*Comparison.added, *ComparisonRow.added):
            part.pop(key, None)
    read = Comparison.model_validate(content)
    assert json.dumps(read.model_dump(mode="json")) == json.dumps(content)
    starred = {row.method for row in read.rows if row.is_over_budget}  # by shares, since no row says it
    assert starred == {"intersection", "union", "jaccard"}


def test_what_only_the_demo_and_compare_add_is_not_written_otherwise() -> None:
    evaluation = Evaluation.model_validate(results())
    assert not {"baselines", "example", "seconds", "recipe"} & evaluation.model_dump().keys()
    added = evaluation.model_copy(update={"seconds": 0.0, "baselines": {"feature": evaluation}})
    assert added.model_dump().keys() - evaluation.model_dump().keys() == {"seconds", "baselines"}
    assert "baselines" not in added.model_dump()["baselines"]["feature"]


def test_the_demonstration_always_says_where_its_page_is() -> None:
    example = {"domain": "a", "file": "b", "truth": "c", "predictions": [{"label": "c", "probability": 0.5}]}
    shown = Demonstration.model_validate(results(example=example, report=None))
    assert shown.model_dump()["report"] is None
    assert shown.example.predictions[0].label == "c"


def test_questions_about_all_domains() -> None:
    content = results(budget=0.5)
    content["domains"]["birds"]["usage"] = 0.51
    content["domains"]["flowers"]["usage"] = 0.5
    evaluation = Evaluation.model_validate(content)
    assert evaluation.largest_usage == 0.51
    assert evaluation.over_budget == ["birds"]
    assert evaluation.accuracies == {"birds": 0.9, "flowers": 0.7}
    assert Evaluation.model_validate(content | {"budget": None}).over_budget == []
    union = content | {"sharing": "union", "union": 0.6}
    assert Evaluation.model_validate(union).over_budget == ["birds", "all domains together"]


@pytest.mark.parametrize(
    "change", [{"unoin": 0.5}, {"mean_accuracy": "high"}, {"union": float("nan")}, {"union": -0.1}, {"domains": {}}]
)
def test_content_of_another_form_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Evaluation.model_validate(results() | change)
