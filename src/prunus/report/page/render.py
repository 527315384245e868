"""Render runs as one self-contained HTML page that loads nothing from the network."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from prunus.amounts import plural
from prunus.errors import MissingExtraError
from prunus.names import shown
from prunus.report.comparison import OVER, OVER_NOTE, SCORES, table_cells
from prunus.report.page.board import Board, Entry, make_boards
from prunus.report.page.board_figures import board_figures
from prunus.report.page.heat import classes_view, sharing_table, usage_table
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import OURS, run_figures
from prunus.report.page.svg import Drawing, Key, drawing_settings, short
from prunus.report.recipe import last_part
from prunus.report.speed import speed_name
from prunus.report.tables import megabytes, percent
from prunus.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("learning", "pruning", "latency")
TITLES = {
    "summary": "Accuracy and cost",
    "params": "Accuracy against parameters",
    "macs": "Accuracy against computation",
    "domains": "Accuracy by domain",
    "learning": "Learning",
    "pruning": "Pruning",
    "latency": "Time for one image",
}


@dataclass(frozen=True)
class Chart:
    """A figure on the page: its id, its title, its SVG and its legend."""

    name: str
    title: str
    svg: str
    keys: Sequence[Key]

    @classmethod
    def of(cls, name: str, kind: str, drawing: Drawing) -> Chart:
        """Render a drawing."""
        return cls(name, TITLES[kind], drawing.svg(name), drawing.keys)


def render_page(runs: Sequence[ReportedRun], left_out: Mapping[str, str]) -> str:
    """Render the page; the same runs always produce the same text.

    Args:
        left_out: path that was named but is not shown -> why.
    """
    environment = _environment()
    boards = make_boards(runs)
    alone = runs[0] if len(runs) == 1 + len(runs[0].results.baselines) else None
    entries = [entry for board in boards for entry in board.entries]
    entries.sort(key=lambda entry: entry.run is not alone)
    with drawing_settings():
        shown_boards = [_show_board(number, board) for number, board in enumerate(boards, 1)]
        shown_runs = [_show_run(entry) | {"open": entry.run is alone} for entry in entries]
    return environment.get_template("page.html").render(
        title=alone.name if alone else f"{len(runs)} runs",
        headline=_facts(alone) if alone else [],
        boards=shown_boards,
        runs=shown_runs,
        left_out=left_out,
        version=__version__,
        page_versions=_versions(),
        css=(TEMPLATES / "page.css").read_text("utf-8"),
        script=(TEMPLATES / "page.js").read_text("utf-8"),
        icon=(TEMPLATES / "icon.svg").read_text("utf-8"),
    )


def _versions() -> dict[str, str]:
    """Return the installed versions, without importing torch."""
    with contextlib.suppress(PackageNotFoundError):
        return {"prunus": __version__, "torch": version("torch").split("+")[0]}
    return {"prunus": __version__}


def _environment() -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415
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
    environment.filters |= {"percent": percent, "megabytes": megabytes, "last_part": last_part, "short": short}
    return environment


def _visible(value: object) -> object:
    """Make what could not be seen in a foreign text visible; markup of the page itself is kept."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _show_board(number: int, board: Board) -> dict[str, object]:
    drawings = board_figures(board)
    header, *rows = table_cells(board.comparison)
    if all(entry.row.scores is None for entry in board.entries):
        header, rows = header[: -len(SCORES)], [row[: -len(SCORES)] for row in rows]
    return {
        "backbone": board.backbone,
        "split": board.split,
        "domains": board.domains,
        "charts": [Chart.of(f"board-{number}-{kind}", kind, drawing) for kind, drawing in drawings.items()],
        "has_points": "summary" not in drawings,
        "has_front": any(key.name == "Pareto front" for drawing in drawings.values() for key in drawing.keys),
        "header": header,
        "rows": [(entry, cells[1:]) for entry, cells in zip(board.entries, rows, strict=True)],
        "over_note": f"{OVER_NOTE}." if any(entry.label.endswith(OVER) for entry in board.entries) else "",
        "has_feature_extractor": board.has_feature_extractor,
    }


def _show_run(entry: Entry) -> dict[str, object]:
    charts_by_kind: dict[str, list[Chart]] = {kind: [] for kind in KINDS}
    for name, drawing in run_figures(entry.run).items():  # of latency there is one per number of threads: latency-2
        kind = name.partition("-")[0]
        charts_by_kind[kind].append(Chart.of(f"{entry.anchor}-{name}", kind, drawing))
    results = entry.run.results
    contents = entry.run.contents
    return {
        "entry": entry,
        "run": entry.run,
        "results": results,
        "charts": charts_by_kind,
        "usage": usage_table(contents.costs) if contents.costs else None,
        "sharing": sharing_table(contents.sharing) if len(contents.sharing) > 1 else None,
        "classes": {name: classes_view(domain.by_class) for name, domain in results.domains.items() if domain.by_class},
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
