"""Commands that measure a run or a model file: `evaluate`, `bench`, `inspect` and `report`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import prunus
from prunus.amounts import plural
from prunus.cli.options import CROPS, AsJson, CropsOption, Device, Explain, ModelFile, NoCache
from prunus.cli.output import make_table, measuring, print_json, say, show, waiting
from prunus.cli.wording import on_command_line
from prunus.measure.speed import engine_title, mean_accuracies
from prunus.names import shown
from prunus.report.tables import file_size, percent, results_view
from prunus.run_folder import RunFolder
from prunus.terminal import PlainTable, plain_console, plain_text

if TYPE_CHECKING:
    from prunus.measure.inspection import Inspection
    from prunus.measure.speed import Benchmark, Gain

SPEED_COLUMNS = ("engine", "domain", "median ms", "p95 ms", "images/s", "speed-up", "of ideal", "accuracy")
NARROWEST = 24  # characters that tell the names of layers apart


def evaluate(
    target: Annotated[Path, typer.Argument(help="Run folder or model file.")],
    split: Annotated[str, typer.Option(help="Images to measure on: test, validation or train.")] = "test",
    data: Annotated[
        Path | None, typer.Option(help="Folder with the domains by name.", show_default="as trained")
    ] = None,
    crops: CropsOption = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    explain: Explain = False,
    pictures: Annotated[bool, typer.Option("--pictures", help="With --json: also small pictures of mistakes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the accuracy, kernel usage, computation and size of a run or a model file.

    Example: prunus evaluate model.prunus --data data
    """
    from prunus.verbs.evaluate import watched_by

    with measuring(f"measuring {target}") as watch, watched_by(watch):
        results = prunus.evaluate(target, split, data, CROPS[crops] if crops else None, device, not no_cache)
    saved = RunFolder(target).results if target.is_dir() else None
    ending = [*([f"Saved to {saved}."] if saved else ()), *([] if explain else ["--explain says what is counted."])]
    show(
        results if pictures else results.without_pictures(),
        as_json,
        results_view(results, explain=explain, run=shlex.quote(str(target))),
        *([" ".join(ending)] if ending else ()),
    )


def bench(
    model: ModelFile,
    threads: Annotated[
        list[int] | None,
        typer.Option(
            min=1, metavar="<int>", help="Number of threads. May be repeated.", show_default="1, and one per processor"
        ),
    ] = None,
    domain: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Domain to time. May be repeated.", show_default="all")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images per batch, for throughput.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements per engine.")] = 50,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the domains by name.", show_default="as trained")
    ] = None,
    no_accuracy: Annotated[bool, typer.Option("--no-accuracy", help="Only time, also where images are found.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Also plot the latencies to this PNG file.")] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Time a model file against the dense network in PyTorch, in ONNX Runtime, and in 8 bits.

    The engines take turns, so other load on the machine affects all of them. The accuracy of each engine on the test
    images is measured too, where they are found.

    Example: prunus bench model.prunus --threads 1 --plot bench.png
    """
    from prunus.verbs.bench import rounds_watched_by, watched_by

    with (
        measuring("timing") as watch,
        watched_by(watch),
        rounds_watched_by(lambda count, done, total: watch("timing with", plural(count, "thread"), done, total)),
    ):
        results = prunus.bench(model, threads, domain or (), batch, rounds, data, accuracy=not no_accuracy)
    lines = [f"{engine_title(engine)} was not timed: {reason}" for engine, reason in results.missing.items()]
    if results.unmeasured:
        lines.append(f"accuracy was not measured: {on_command_line(results.unmeasured)}")
    if explain:
        lines += _explanation(results)
    elif results.gains:
        lines.append("--explain says what is counted.")
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items())
    lines.append(f"{results.machine}; Prunus on {results.prunus_engine}; {versions}")
    if plot is not None:
        from prunus.report.speed import write_speed_plot

        write_speed_plot(plot, results)
        lines.append(f"{plot}: latencies")
    counts = dict.fromkeys(speed.threads for speed in results.speeds)
    show(results, as_json, *(_speeds(results, count) for count in counts), *lines)


def _explanation(results: Benchmark) -> Iterator[str]:
    yield f"median ms, p95 ms: one image; images/s: in batches of {results.batch}"
    yield "ONNX: in ONNX Runtime"
    if results.gains:
        yield f"speed-up: over {engine_title(results.gains[0].over)}, the row without a domain"
    if any(gain.realised for gain in results.gains):
        yield (
            "of ideal: speed-up divided by the reduction in multiply-accumulates; above 100 % where pruning also saves "
            "other work"
        )
    dense = "" if any(speed.accuracy is not None for speed in results.speeds) else "; only of the dense network"
    yield f"int8: static quantization by ONNX Runtime (U8S8, per channel){dense}"


def _speeds(results: Benchmark, threads: int) -> PlainTable:
    setting = f"{plural(threads, 'thread')}, Prunus on {results.prunus_engine}"
    title = f"{results.model} ({results.backbone}, {results.image_size} px), {setting}"
    table = make_table(SPEED_COLUMNS, title, left=("domain",), gap=0)  # so that names fit beside all columns
    gains = {gain.domain: gain for gain in results.gains if gain.threads == threads}
    speeds = [speed for speed in results.speeds if speed.threads == threads]
    for speed in speeds:
        gain = gains.get(speed.domain or "") if speed.engine == "Prunus" else None
        times = (_short(speed.latency.median_ms), _short(speed.latency.p95_ms), f"{speed.images_per_second:,.0f}")
        earned = _mean_gains([gain] if gain else [])
        right = "" if speed.accuracy is None else percent(speed.accuracy, 2)
        table.add_row(engine_title(speed.engine), speed.domain or "", *times, *earned, right)
    accuracies = mean_accuracies(speeds)
    if gains or accuracies:
        table.add_section()
    for engine in dict.fromkeys([*(["Prunus"] if gains else []), *accuracies]):
        right = percent(accuracies[engine], 2) if engine in accuracies else ""
        means = _mean_gains(list(gains.values())) if engine == "Prunus" else ("", "")
        table.add_row(engine_title(engine), "mean", "", "", "", *means, right)
    if not accuracies:
        del table.columns[-1]
    if not any(gain.realised for gain in gains.values()):
        del table.columns[6]
    if not gains:  # nothing to compare with
        del table.columns[5]
    return table


def _mean_gains(gains: Sequence[Gain]) -> tuple[str, str]:
    if not gains:
        return "", ""
    realised = [gain.realised for gain in gains if gain.realised is not None]
    return f"{mean(gain.speed_up for gain in gains):.2f} x", percent(mean(realised), 0) if realised else ""


def _short(milliseconds: float) -> str:
    return f"{milliseconds:.3f}" if milliseconds < 10 else f"{milliseconds:.1f}"


def inspect(model: ModelFile, as_json: AsJson = False) -> None:
    """Show the contents of a model file: layers, usage by domain, sharing between domains, and bytes.

    Example: prunus inspect model.prunus
    """
    inspection = prunus.inspect(model)
    if as_json:
        print_json(inspection)
        return
    console = plain_console()
    domains = list(inspection.domains)
    say(f"{model}: {inspection.backbone}, {inspection.dtype}, {plural(len(domains), 'domain')}")
    if inspection.source:
        console.print(plain_text(f"source (the backbone was pretrained on it): {inspection.source}"))
    if eight_bits := inspection.eight_bits:
        for line in (*eight_bits.in_words(), *(f"note: {note}" for note in eight_bits.notes())):
            console.print(plain_text(line))
    titles = _titles([shown(name) for name in domains], console.width)
    if titles != domains:
        named = ", ".join(f"{title} {name}" for title, name in zip(titles, domains, strict=True))
        console.print(plain_text(f"domains: {named}"))
    for table in (_layers(inspection, titles, console.width), _sharing(inspection, titles), _parts(inspection)):
        console.print(table)


def _titles(names: Sequence[str], width: int) -> list[str]:
    """Return the domains' names as titles of columns, or numbers if they do not fit."""
    needed = NARROWEST + 2 * 9 + sum(max(len(name), 5) + 2 for name in names)
    return list(names) if needed <= width else [str(number) for number in range(1, len(names) + 1)]


def _layers(inspection: Inspection, titles: Sequence[str], width: int) -> PlainTable:
    columns = ("layer", "kernels", "kept", *titles)
    table = make_table(columns, "kernels before pruning, kept, and used by each domain", gap=2)
    room = max(NARROWEST, width - 2 * 9 - 2 - sum(max(len(title), 5) + 2 for title in titles))
    for layer in inspection.layers:
        used = [percent(share, 0) for share in layer.usage.values()]
        table.add_row(_broken(shown(layer.name), room), f"{layer.num_kernels:,}", f"{layer.kept:,}", *used)
    return table


def _broken(name: str, room: int) -> Text:
    """Break a long name after dots, so that all of it is shown."""
    lines = [""]
    for part in re.split(r"(?<=\.)", name):
        is_full = lines[-1].strip() and len(lines[-1]) + len(part) > room
        lines = [*lines, f"  {part}"] if is_full else [*lines[:-1], lines[-1] + part]
    return plain_text(*lines)


def _sharing(inspection: Inspection, titles: Sequence[str]) -> PlainTable:
    rows = (
        (title, *(percent(share, 0) for share in row.values()))
        for title, row in zip(titles, inspection.sharing.values(), strict=True)
    )
    return make_table(("", *titles), "sharing: kernels that both use / that either uses", gap=2, rows=rows)


def _parts(inspection: Inspection) -> PlainTable:
    total = sum(inspection.bytes_by_part.values())
    rows = ((part, f"{count:,}", percent(count / total)) for part, count in inspection.bytes_by_part.items())
    table = make_table(("part", "bytes", "share"), "bytes", gap=2, rows=rows)
    table.add_section()
    table.add_row("all", f"{total:,}", "")
    return table


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that contain runs.")],
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="Also write the figures as SVG and PNG to this folder.")] = None,
    no_measure: Annotated[
        bool, typer.Option("--no-measure", help="Report only what has been measured already.")
    ] = False,
) -> None:
    """Write one HTML page about runs: accuracy against cost, tables, usage, sharing, training, latency and size.

    Runs whose results are missing or older than their checkpoint are measured first.

    Example: prunus report runs --out report.html
    """
    with waiting("reading runs, and measuring what they lack"):
        written = prunus.write_report(runs, out, figures, not no_measure)
    for name, files in written.measured.items():
        say(f"measured: {name} (wrote {' and '.join(files)})")
    for name, reason in written.left_out.items():
        say(f"left out: {name}: {reason}")
    size = file_size(written.page.stat().st_size)
    own = [name for name in written.runs if name.rpartition("/")[0] not in written.runs]
    beside = ", with frozen features" if len(own) < len(written.runs) else ""
    say(f"{written.page}: {plural(len(own), 'run')}{beside}, {size}; open it in a browser")
    if written.figures:
        say(f"{figures}: {plural(len(written.figures), 'figure')} as SVG and PNG")
