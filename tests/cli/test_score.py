"""`prunus score`: either accuracies or a results file with its labels."""

import pytest
from typer.testing import CliRunner, Result

from prunus.cli.app import app
from prunus.errors import DataError

TEN = ",".join(["50"] * 10)


def _score(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["score", *arguments])


def test_scores_are_shown_below_the_accuracies() -> None:
    output = _score("--accuracy", TEN, "--macs", "0.5", "--params", "0.25").output
    cells = [line.strip("│┃ ").replace(" ", "").split("│") for line in output.splitlines()]
    accuracies = {row[0]: row[1] for row in cells if len(row) == 2}
    assert accuracies["imagenet12"] == "50.0%"
    assert float(accuracies["S_O"]) == pytest.approx(2 * float(accuracies["S"]), abs=1.5)
    assert float(accuracies["S_P"]) == pytest.approx(4 * float(accuracies["S"]), abs=2.5)
    assert "S_E is relative to the feature extractor's S of" in output


def test_scores_without_costs_are_omitted() -> None:
    output = _score("--accuracy", TEN).output
    assert "S_O" not in output
    assert "S_E" not in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "pass either --accuracy"),
        (["results.zip"], "pass either --accuracy"),
        (["results.zip", "--labels", "x", "--accuracy", TEN], "pass either --accuracy"),
        (["results.zip", "--labels", "x", "--benchmark", "imagenet_to_sketch"], "can be scored for decathlon only"),
        (["--accuracy", "50;60"], "--accuracy must be numbers separated by commas; got '50;60'"),
    ],
)
def test_anything_else_is_refused(arguments: list[str], message: str) -> None:
    result = _score(*arguments)
    assert isinstance(result.exception, DataError)
    assert message in str(result.exception)
