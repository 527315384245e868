"""The tables and the plot of `prunus versus`: accuracy against bytes and against milliseconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group

from prunus.files import write_atomically
from prunus.measure.versus import Summary, Verdict, Versus, judge, summarize
from prunus.names import shown
from prunus.report.pareto import DARK, FONT_SIZE, SPACE, Label, Style, box_of_point, place_labels
from prunus.report.plots import new_figure, save_figure
from prunus.terminal import PlainTable, plain_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEM = "versus"
COSTS = {  # what accuracy is drawn and judged against -> factor and title
    "total_bytes": (1e-6, "size of all files for all domains (MB)"),
    "milliseconds": (1.0, "time of one image, one thread (ms)"),
}
COLUMNS = ("alternative", "accuracy (%)", "MB", "ms", "MACs (M)")
VERDICT_COLUMNS = ("against", "ours at no more bytes", "ours at no more ms")


def write_versus(folder: Path, versus: Versus) -> None:
    """Write the raw results, the tables made from them and the plot."""
    text = json.dumps(versus.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder / f"{STEM}.json", text.encode())
    write_atomically(folder / f"{STEM}.md", to_markdown(versus).encode())
    save_figure(versus_figure(versus), folder / f"{STEM}.svg")


def versus_view(versus: Versus) -> Group:
    """Show all alternatives in a terminal."""
    tables = []
    for header, *rows in (result_cells(versus), verdict_cells(versus)):
        table = PlainTable()
        table.add_column(header[0], overflow="fold")
        for name in header[1:]:
            table.add_column(name, justify="right")
        for row in rows:
            table.add_row(*map(plain_text, row))
        tables.append(table)
    return Group(tables[0], tables[1], *map(plain_text, notes(versus)))


def to_markdown(versus: Versus) -> str:
    """Write the tables of all alternatives, of their domains and of the verdicts as Markdown."""
    parts = [_markdown(cells(versus)) for cells in (result_cells, domain_cells, verdict_cells)]
    return "\n".join([*parts, *(f"{note}\n" for note in notes(versus))])


def result_cells(versus: Versus) -> list[list[str]]:
    """Return the header and the rows of the main table."""
    rows = [list(COLUMNS)]
    for summary in summarize(versus):
        mean = f"{100 * summary.mean_accuracy:.1f}"
        accuracy = mean if summary.spread is None else f"{mean} ± {100 * summary.spread:.1f}"
        costs = [f"{summary.total_bytes / 1e6:.3f}", f"{summary.milliseconds:.3f}", f"{summary.macs / 1e6:.1f}"]
        rows.append([f"{summary.name}: {versus.titles[summary.name]}", accuracy, *costs])
    return rows


def domain_cells(versus: Versus) -> list[list[str]]:
    """Return the header and the rows of the table of single domains."""
    header = ["accuracy (%)", *(f"{shown(name)} ({count} images)" for name, count in versus.images.items())]
    rows = [
        [summary.name, *(f"{100 * summary.accuracies[name]:.1f}" for name in versus.images)]
        for summary in summarize(versus)
    ]
    return [header, *rows]


def verdict_cells(versus: Versus) -> list[list[str]]:
    """Return the header and the rows of the table that compares every alternative with the best of ours."""
    summaries = summarize(versus)
    judged = [judge(summaries, cost) for cost in COSTS]
    rows = [[pair[0].rival, *map(verdict_text, pair)] for pair in zip(*judged, strict=True)]
    return [list(VERDICT_COLUMNS), *rows]


def verdict_text(verdict: Verdict) -> str:
    """Say in a few words how ours compares."""
    if verdict.ours is None:
        return "none: all of ours cost more"
    points = f"{100 * verdict.difference:+.1f} points"
    outcome = "within the noise" if verdict.is_noise else "better" if verdict.difference > 0 else "**worse**"
    return f"{verdict.ours}: {points}, {outcome} (± {100 * verdict.noise:.1f})"


def notes(versus: Versus) -> list[str]:
    """Say what was measured, on which machine, and what could not be made."""
    seeds = sorted({row.seed for row in versus.rows})
    over = f"means over the seeds {', '.join(map(str, seeds))}, ± standard deviation" if len(seeds) > 1 else "one seed"
    versions = ", ".join(f"{name} {number}" for name, number in versus.versions.items())
    return [
        f"Accuracy on {versus.split} images, mean over the domains; {over}. MB: all files for all domains. "
        "ms: median of one image with one thread, mean over the domains, all in turns.",
        f"{versus.machine}; Prunus on {versus.prunus_engine}; {versions}.",
        *(f"{name} could not be made: {shown(reason)}" for name, reason in versus.failed.items()),
    ]


def versus_figure(versus: Versus) -> Figure:
    """Draw every alternative with its standard error, against bytes and against milliseconds."""
    summaries = summarize(versus)
    figure, panels = new_figure(len(COSTS), 10, 4.2)
    styles = [Style.number(0 if summary.is_ours else index + 1) for index, summary in enumerate(summaries)]
    for axes, (cost, (factor, title)) in zip(panels, COSTS.items(), strict=True):
        for summary, style in zip(summaries, styles, strict=True):
            x, y = _point(summary, cost, factor)
            axes.errorbar(x, y, 100 * summary.error, fmt=style.marker, ms=6, lw=1, color=style.colour)
        axes.set_xscale("log")
        axes.margins(SPACE)
        axes.set(xlabel=title, ylabel=f"mean accuracy on {versus.split} images (%)")
    number = len(versus.images)
    title = f"{versus.backbone}, {number} domain{'' if number == 1 else 's'}; bars: ± standard error"
    figure.suptitle(shown(title), fontsize=10)
    figure.draw_without_rendering()  # computes the layout, which says where there is room for labels
    for axes, (cost, (factor, _)) in zip(panels, COSTS.items(), strict=True):
        points = [_point(summary, cost, factor) for summary in summaries]
        labels = [Label(summary.name, point, DARK) for summary, point in zip(summaries, points, strict=True)]
        place_labels(axes, labels, [box_of_point(axes, point) for point in points], FONT_SIZE)
    return figure


def _point(summary: Summary, cost: str, factor: float) -> tuple[float, float]:
    return factor * getattr(summary, cost), 100 * summary.mean_accuracy


def _markdown(cells: Sequence[Sequence[str]]) -> str:
    header, *rows = cells
    ruler = ["---", *("---:" for _ in header[1:])]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, ruler, *rows])
