"""`prunus bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, Explain, ModelFile
from prunus.cli.output import make_table, print_json
from prunus.report.tables import plural

if TYPE_CHECKING:
    from prunus.measure.speed import Benchmark

COLUMNS = ("engine", "domain", "median ms", "p95 ms", "images/s", "speed-up", "of ideal")


def command(
    model: ModelFile,
    threads: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Number of threads. May be repeated.", show_default="1, and one per processor"),
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(help="Domain to time. May be repeated.", show_default="all")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images per batch, for throughput.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements per engine.")] = 50,
    plot: Annotated[Path | None, typer.Option(help="Also plot the latencies to this PNG file.")] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Time a model file against the dense network in PyTorch and ONNX Runtime.

    The engines take turns, so other load on the machine affects all of them.

    Example: prunus bench model.prunus --threads 1 --plot bench.png
    """
    from prunus.verbs.bench import bench

    with Console(stderr=True).status("timing"):
        results = bench(model, threads, domain or (), batch, rounds)
    if plot is not None:
        from prunus.report.speed import write_speed_plot

        write_speed_plot(plot, results)
    if as_json:
        print_json(results)
        return
    for count in dict.fromkeys(speed.threads for speed in results.speeds):
        Console(highlight=False).print(_table(results, count))
    for engine, reason in results.missing.items():
        typer.echo(f"{engine} was not timed: {reason}")
    if explain:
        typer.echo(
            f"median ms, p95 ms: one image; images/s: in batches of {results.batch}\n"
            "ONNX: in ONNX Runtime; speed-up: over ONNX dense\n"
            "of ideal: speed-up divided by the reduction in multiply-accumulates"
        )
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    typer.echo(f"{results.machine}; Prunus on {results.prunus_engine}; {versions}")
    if plot is not None:
        typer.echo(f"{plot}: latencies")


def _table(results: Benchmark, threads: int) -> Table:
    setting = f"{plural(threads, 'thread')}, Prunus on {results.prunus_engine}"
    title = f"{results.model} ({results.backbone}, {results.image_size} px), {setting}"
    table = make_table(COLUMNS, title, left=("domain",), gap=1)
    gains = {gain.domain: gain for gain in results.gains if gain.threads == threads}
    for speed in results.speeds:
        if speed.threads != threads:
            continue
        gain = gains.get(speed.domain or "") if speed.engine == "Prunus" else None
        times = (_short(speed.latency.median_ms), _short(speed.latency.p95_ms), f"{speed.images_per_second:,.0f}")
        earned = (f"{gain.speed_up:.2f} x", f"{gain.realised:.0%}") if gain else ("", "")
        table.add_row(speed.engine, speed.domain or "", *times, *earned)
    if gains:
        mean_speed_up = sum(gain.speed_up for gain in gains.values()) / len(gains)
        mean_realised = sum(gain.realised for gain in gains.values()) / len(gains)
        table.add_section()
        table.add_row("Prunus", "mean", "", "", "", f"{mean_speed_up:.2f} x", f"{mean_realised:.0%}")
    return table


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.3f}" if milliseconds < 10 else f"{milliseconds:.1f}"
