"""`prunus demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from prunus.cli.options import AsJson, Device, Overrides, print_json
from prunus.report.tables import megabytes, percent, results_view

if TYPE_CHECKING:
    from prunus.measure.evaluation import Demonstration, Example


def command(
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("runs/demo"),
    overrides: Overrides = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Do the main job on bundled data: train, prune, measure and use one model for five domains."""
    from prunus.cli.progress import TrainingProgress
    from prunus.verbs.demo import demo

    console = Console(stderr=as_json)
    results = demo(out, overrides or (), lambda title: [TrainingProgress(title, console)], device)
    if as_json:
        print_json(results.model_dump(mode="json"))
        return
    console.print()
    console.print(results_view(results, results.baselines["feature"]))
    console.print(f"\n{_summary(results)}\n", highlight=False)
    console.print(f"{_example(results.example)}\n", highlight=False, markup=False)
    console.print(
        f"Written to {out}: results.json, bench.json, model.prunus and plots/ (accuracy, usage, training)",
        highlight=False,
    )
    missing = f"none yet; pip install 'prunus[report]', then: prunus report {out}"
    console.print(
        f"A page about it, for any browser: {results.report or missing}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    console.print(
        f"Next: prunus predict {out / 'model.prunus'} IMAGE --domain {results.example.domain}", highlight=False
    )


def _summary(results: Demonstration) -> str:
    gain = 100 * (results.mean_accuracy - results.baselines["feature"].mean_accuracy)
    return (
        f"One file of {megabytes(results.model_bytes)} serves all {len(results.domains)} domains with "
        f"[bold]{percent(results.params_ratio, 0)}[/] of the backbone's parameters and "
        f"[bold]{percent(results.macs_ratio, 0)}[/] of its computation per image, and is right "
        f"[bold]{abs(gain):.1f} points[/] {'more' if gain >= 0 else 'less'} often than the backbone's frozen features."
    )


def _example(example: Example) -> str:
    best = example.predictions[0]
    verdict = "right" if best.label == example.truth else f"wrong: it is {example.truth!r}"
    found = f"class {best.label!r} with {percent(best.probability)}"
    return f"A test image of domain {example.domain!r}, {example.file}: {found} ({verdict})."
