"""The tables of `prunus versus`: for a terminal and as Markdown."""

from collections.abc import Sequence

from rich.console import Group

from prunus.measure.alternatives.results import Versus
from prunus.measure.alternatives.verdicts import Verdict, judge, summarize
from prunus.names import shown
from prunus.terminal import PlainTable, plain_text

COSTS = ("total_bytes", "milliseconds")  # that ours must not exceed to be compared
ONE_SEED = "one seed, so the noise of training is not counted"
COLUMNS = ("alternative", "accuracy (%)", "MB", "ms", "MACs (M)")
VERDICT_COLUMNS = ("against", "ours at no more bytes", "ours at no more ms")


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
    over = f"means over the seeds {', '.join(map(str, seeds))}, ± standard deviation" if len(seeds) > 1 else ONE_SEED
    versions = ", ".join(f"{name} {number}" for name, number in versus.versions.items())
    return [
        f"Accuracy on {versus.split} images, mean over the domains; {over}. MB: all files for all domains. "
        "ms: median of one image with one thread, mean over the domains, all in turns.",
        f"{versus.machine}; Prunus on {versus.prunus_engine}; {versions}.",
        *(f"{name} could not be made: {shown(reason)}" for name, reason in versus.failed.items()),
    ]


def _markdown(cells: Sequence[Sequence[str]]) -> str:
    header, *rows = cells
    ruler = ["---", *("---:" for _ in header[1:])]
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, ruler, *rows])
