"""`prunus bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from prunus.measure.speed import Benchmark


def command(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    threads: Annotated[
        list[int] | None, typer.Option(min=1, help="Threads; one, and one for each processor, unless given.")
    ] = None,
    domain: Annotated[list[str] | None, typer.Option(help="Only this domain. May be repeated.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images of one pass for throughput.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="How often every engine takes its turn.")] = 50,
    plot: Annotated[Path | None, typer.Option(help="Draw the latencies into this PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Time a model file against the dense network in PyTorch and ONNX Runtime, all taking turns."""
    from prunus.verbs.bench import bench

    console = Console(highlight=False)
    with Console(stderr=True).status("timing"):
        found = bench(model, threads, domain or (), batch, rounds)
    if plot is not None:
        from prunus.report.speed import write_speed_plot

        write_speed_plot(plot, found)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    for count in dict.fromkeys(each.threads for each in found.speeds):
        console.print(_table(found, count))
    for engine, reason in found.missing.items():
        console.print(f"{engine} was left out: {reason}", markup=False, soft_wrap=True)
    console.print(
        f"ms: one image; images/s: in batches of {found.batch}; ONNX: in ONNX Runtime; speed-up: over ONNX dense; of "
        "promise: speed-up / (dense multiply-accumulates / the domain's)",
        markup=False,
    )
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    console.print(f"{_origin(found)}; {versions}", markup=False, soft_wrap=True)
    if plot is not None:
        console.print(f"{plot}: latencies", markup=False, soft_wrap=True)


def _origin(found: Benchmark) -> str:
    return f"{found.machine}; Prunus on {found.prunus_engine}"


def _table(found: Benchmark, threads: int) -> Table:
    setting = f"{threads} thread{'s' if threads > 1 else ''}, Prunus on {found.prunus_engine}"
    table = Table(
        title=f"{found.model} ({found.backbone}, {found.image_size} px), {setting}",
        box=SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
    )
    for column in ("engine", "domain", "median ms", "p95 ms", "images/s", "speed-up", "of promise"):
        table.add_column(column, justify="left" if column in ("engine", "domain") else "right", no_wrap=True)
    gains = {each.domain: each for each in found.gains if each.threads == threads}
    for each in (speed for speed in found.speeds if speed.threads == threads):
        gain = gains.get(each.domain or "") if each.engine == "Prunus" else None
        times = (_short(each.latency.median_ms), _short(each.latency.p95_ms), f"{each.images_per_second:,.0f}")
        earned = (f"{gain.speed_up:.2f} x", f"{gain.realised:.0%}") if gain else ("", "")
        table.add_row(each.engine, each.domain or "", *times, *earned)
    if gains:
        mean = sum(each.realised for each in gains.values()) / len(gains)
        ratio = sum(each.speed_up for each in gains.values()) / len(gains)
        table.add_section()
        table.add_row("Prunus", "mean", "", "", "", f"{ratio:.2f} x", f"{mean:.0%}")
    return table


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.3f}" if milliseconds < 10 else f"{milliseconds:.1f}"
