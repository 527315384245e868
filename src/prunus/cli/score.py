"""`prunus score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json
from prunus.errors import DataError


def command(
    results: Annotated[
        Path | None, typer.Argument(help="A results file (zip or JSON) to grade; needs --labels.")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Folder of <set>_test.json with the true labels.")] = None,
    benchmark: Annotated[str, typer.Option(help="decathlon or imagenet_to_sketch.")] = "decathlon",
    accuracy: Annotated[
        str | None, typer.Option(help="Accuracies in the order of the paper's tables: 56.9,35.2,...")
    ] = None,
    macs: Annotated[float | None, typer.Option(help="MACs relative to the backbone: gives S_O.")] = None,
    params: Annotated[float | None, typer.Option(help="Parameters relative to the backbone: gives S_P.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute S, S_O, S_P and S_E from accuracies, or from a results file and its labels."""
    from prunus.report.tables import percent
    from prunus.verbs.score import score_accuracies, score_results

    if results and labels and accuracy is None:
        if benchmark != "decathlon":
            raise DataError(f"results files are graded for decathlon only, got --benchmark {benchmark}")
        found = score_results(results, labels, macs, params)
    elif accuracy and results is None:
        found = score_accuracies(benchmark, _numbers(accuracy), macs, params)
    else:
        raise DataError("give either --accuracy 56.9,35.2,... or a results file with --labels FOLDER")
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    table = Table(
        title=f"{found.benchmark}, {len(found.accuracies)} of {found.sets_in_benchmark} sets", title_justify="left"
    )
    table.add_column("set")
    table.add_column("accuracy", justify="right")
    for name, share in found.accuracies.items():
        table.add_row(name, percent(share))
    table.add_section()
    named = {"S": found.scores.s, "S_O": found.scores.s_o, "S_P": found.scores.s_p, "S_E": found.scores.s_e}
    for name, value in named.items():
        if value is not None:
            table.add_row(name, f"{value:.2f}" if name == "S_E" else f"{value:.0f}", style="bold")
    console = Console()
    console.print(table)
    if found.scores.s_e is not None:
        console.print(f"S_E is relative to the feature extractor's S of {found.feature_score:.0f}.", highlight=False)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DataError(f"accuracies are numbers with commas between them, got {text!r}") from None
