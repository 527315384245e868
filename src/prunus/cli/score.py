"""`prunus score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson
from prunus.cli.output import make_table, print_json
from prunus.errors import DataError


def command(
    results: Annotated[Path | None, typer.Argument(help="Results file (zip or JSON); needs --labels.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Folder with the true labels as SET_test.json.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark: decathlon or imagenet_to_sketch.")] = "decathlon",
    accuracy: Annotated[
        str | None, typer.Option(help="Accuracies in the order of the paper's tables: 56.9,35.2,...")
    ] = None,
    macs: Annotated[float | None, typer.Option(help="MACs relative to the backbone, for S_O.")] = None,
    params: Annotated[float | None, typer.Option(help="Parameters relative to the backbone, for S_P.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the scores S, S_O, S_P and S_E from accuracies, or from a results file and its labels.

    Example: prunus score results.zip --labels labels --macs 0.25
    """
    from prunus.report.tables import percent
    from prunus.verbs.score import score_accuracies, score_results

    if results and labels and accuracy is None:
        if benchmark != "decathlon":
            raise DataError(f"results files can be scored for decathlon only; got --benchmark {benchmark}")
        score = score_results(results, labels, macs, params)
    elif accuracy and results is None:
        score = score_accuracies(benchmark, _parse_accuracies(accuracy), macs, params)
    else:
        raise DataError("pass either --accuracy 56.9,35.2,... or a results file with --labels FOLDER")
    if as_json:
        print_json(score)
        return
    title = f"{score.benchmark}, {len(score.accuracies)} of {score.sets_in_benchmark} sets"
    table = make_table(("set", "accuracy"), title)
    for name, share in score.accuracies.items():
        table.add_row(name, percent(share))
    table.add_section()
    named = {"S": score.scores.s, "S_O": score.scores.s_o, "S_P": score.scores.s_p, "S_E": score.scores.s_e}
    for name, value in named.items():
        if value is not None:
            table.add_row(name, f"{value:.2f}" if name == "S_E" else f"{value:.0f}", style="bold")
    Console().print(table)
    if score.scores.s_e is not None:
        typer.echo(f"S_E is relative to the feature extractor's S of {score.feature_score:.0f}.")


def _parse_accuracies(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DataError(f"--accuracy must be numbers separated by commas; got {text!r}") from None
