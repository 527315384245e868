"""`prunus demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, Device, Overrides
from prunus.cli.output import print_json
from prunus.report.tables import megabytes, percent, results_view
from prunus.run_folder import RunFolder

if TYPE_CHECKING:
    from prunus.measure.evaluation import Demonstration, Example


def command(
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("runs/demo"),
    overrides: Overrides = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train, prune, measure and use one model for five bundled domains.

    Example: prunus demo --out runs/demo
    """
    from prunus.cli.progress import TrainingProgress
    from prunus.verbs.demo import demo

    console = Console(stderr=as_json, highlight=False)
    results = demo(out, overrides or (), lambda title: [TrainingProgress(title, console)], device)
    if as_json:
        print_json(results)
        return
    files = RunFolder(out)
    names = ", ".join(path.name for path in (files.results, files.bench, files.model, files.plots))
    report = results.report or f"none yet; pip install 'prunus[report]', then: prunus report {out}"
    console.print("", results_view(results, results.baselines["feature"]), f"\n{_summary(results)}\n", sep="\n")
    typer.echo(
        f"{_example(results.example)}\n\nWritten to {out}: {names}\nReport: {report}\n"
        f"Next: prunus predict {files.model} IMAGE --domain {results.example.domain}"
    )


def _summary(results: Demonstration) -> str:
    gain = 100 * (results.mean_accuracy - results.baselines["feature"].mean_accuracy)
    return (
        f"One file of {megabytes(results.model_bytes)} serves all {len(results.domains)} domains with "
        f"[bold]{percent(results.params_ratio, 0)}[/] of the backbone's parameters and "
        f"[bold]{percent(results.macs_ratio, 0)}[/] of its computation per image. It is "
        f"[bold]{abs(gain):.1f} points[/] {'more' if gain >= 0 else 'less'} accurate than the backbone's frozen "
        "features."
    )


def _example(example: Example) -> str:
    best = example.predictions[0]
    verdict = "correct" if best.label == example.truth else f"wrong: it is {example.truth!r}"
    answer = f"class {best.label!r} with {percent(best.probability)}"
    return f"A test image of domain {example.domain!r}, {example.file}: {answer} ({verdict})."
