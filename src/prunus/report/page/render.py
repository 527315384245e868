"""Render runs as one self-contained HTML page that loads nothing from the network."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.amounts import plural
from prunus.errors import MissingExtraError
from prunus.names import shown
from prunus.report.comparison import OVER, OVER_NOTE, SCORES, table_cells
from prunus.report.page.board import COSTS, Board, Entry, make_boards
from prunus.report.page.board_figures import domains_figure, tradeoff_figure
from prunus.report.page.plot import Plot
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import OURS, run_figures
from prunus.report.recipe import last_part
from prunus.report.speed import speed_name
from prunus.report.tables import megabytes, percent
from prunus.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("usage", "sharing", "learning", "pruning", "latency")


def render_page(runs: Sequence[ReportedRun], left_out: Mapping[str, str]) -> str:
    """Render the page; the same runs always produce the same text.

    Args:
        left_out: path that was named but is not shown -> why.
    """
    boards = make_boards(runs)
    figures: dict[str, Plot] = {}
    shown_boards = [_show_board(number, board, figures) for number, board in enumerate(boards, 1)]
    alone = runs[0] if len(runs) == 1 + len(runs[0].results.baselines) else None
    entries = [entry for board in boards for entry in board.entries]
    entries.sort(key=lambda entry: entry.run is not alone)
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=alone.name if alone else f"{len(runs)} runs",
            headline=_facts(alone) if alone else [],
            boards=shown_boards,
            runs=[_show_run(entry, figures) | {"open": entry.run is alone} for entry in entries],
            left_out=left_out,
            figures=figures,
            version=__version__,
            page_versions=_versions(),
            css=(TEMPLATES / "page.css").read_text("utf-8"),
            script=(TEMPLATES / "page.js").read_text("utf-8"),
        )
    )


def _versions() -> dict[str, str]:
    """Return the installed versions, without importing torch."""
    with contextlib.suppress(PackageNotFoundError):
        return {"prunus": __version__, "torch": version("torch").split("+")[0]}
    return {"prunus": __version__}


def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415
        from plotly.offline import get_plotlyjs  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "report", "writing a page") from None
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "megabytes": megabytes, "last_part": last_part}
    environment.globals["plotly"] = get_plotlyjs()
    return environment


def _visible(value: object) -> object:
    """Make what could not be seen in a foreign text visible; markup of the page itself is kept."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _show_board(number: int, board: Board, figures: dict[str, Plot]) -> dict[str, object]:
    names = {f"board-{number}-{cost}": tradeoff_figure(board, cost) for cost in COSTS}
    accuracy = f"board-{number}-domains"
    figures |= names | {accuracy: domains_figure(board)}
    header, *rows = table_cells(board.comparison)
    if all(entry.row.scores is None for entry in board.entries):
        header, rows = header[: -len(SCORES)], [row[: -len(SCORES)] for row in rows]
    return {
        "backbone": board.backbone,
        "split": board.split,
        "domains": board.domains,
        "tradeoffs": list(names),
        "has_front": any(trace["name"] == "Pareto front" for name in names for trace in figures[name]["data"]),
        "accuracy": accuracy,
        "header": header,
        "rows": [(entry, cells[1:]) for entry, cells in zip(board.entries, rows, strict=True)],
        "over_note": f"{OVER_NOTE}." if any(entry.label.endswith(OVER) for entry in board.entries) else "",
        "has_feature_extractor": board.has_feature_extractor,
    }


def _show_run(entry: Entry, figures: dict[str, Plot]) -> dict[str, object]:
    names_by_kind: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name, plot in run_figures(entry.run).items():  # of latency there is one per number of threads: latency-2
        names_by_kind[name.partition("-")[0]].append(f"{entry.anchor}-{name}")
        figures[f"{entry.anchor}-{name}"] = plot
    results = entry.run.results
    return {
        "entry": entry,
        "run": entry.run,
        "results": results,
        "figures": names_by_kind,
        "facts": _facts(entry.run),
        "speeds": [(speed_name(speed), speed) for speed in entry.run.bench.speeds] if entry.run.bench else [],
    }


def _facts(run: ReportedRun) -> list[tuple[str, str, str]]:
    """List the most important numbers of a run: name, value, explanation."""
    results = run.results
    size = results.stored_bytes if results.model_bytes is None else results.model_bytes
    facts = [
        ("mean accuracy", percent(results.mean_accuracy), f"{results.split} images of {len(results.domains)} domains"),
        (
            "kernels used",
            percent(results.largest_usage),
            f"by the largest domain; {percent(results.union)} by any",
        ),
        ("parameters", percent(results.params_ratio), "of the dense backbone, including switches"),
        ("computation", percent(results.macs_ratio), f"of its {results.dense_macs / 1e6:,.1f} M MACs per image"),
        (
            "bytes",
            megabytes(size),
            f"for all domains; the dense backbone alone takes {megabytes(results.dense_bytes)}",
        ),
    ]
    if run.bench:
        speeds = [speed for speed in run.bench.speeds if speed.engine == OURS] or run.bench.speeds
        threads = min(speed.threads for speed in speeds)
        times = [speed.latency.median_ms for speed in speeds if speed.threads == threads]
        meaning = f"for one image, {plural(threads, 'thread')}, mean over the domains"
        facts.append(("latency", f"{sum(times) / len(times):.3g} ms", meaning))
    return facts
