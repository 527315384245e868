"""Render runs as one self-contained HTML page that loads nothing from the network."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prunus.amounts import plural
from prunus.catalog import find_described
from prunus.errors import MissingExtraError
from prunus.measure.by_class.confusion import MOST_MISTAKES
from prunus.measure.comparison import near_best
from prunus.names import marked, shown
from prunus.report.comparison import FIRST_DOMAIN, OVER, OVER_NOTE, SCORES, near_note, table_cells
from prunus.report.page.board import COSTS, Board, Entry, cost_of, make_boards
from prunus.report.page.board_figures import board_figures
from prunus.report.page.heat import classes_view, sharing_table, usage_table
from prunus.report.page.run import ReportedRun, headline, summary
from prunus.report.page.run_figures import run_figures
from prunus.report.page.svg import Drawing, Key, drawing_settings, short
from prunus.report.recipe import last_part
from prunus.report.speed import speed_name
from prunus.report.tables import accuracy_text, file_size, is_penalty, percent
from prunus.report.training_curves import accuracy_kind
from prunus.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment, Template

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("learning", "pruning", "latency")
TITLES = {
    "summary": "Accuracy and cost",
    "params": "Accuracy against parameters",
    "macs": "Accuracy against computation",
    "domains": "Accuracy by domain",
    "learning": "Learning: accuracy on {images} images",
    "pruning": "Pruning: kernels that each domain uses",
    "latency": "Time for one image",
}


@dataclass(frozen=True)
class Detail:
    """How much a page shows of each run.

    Args:
        mistakes: most of them of a domain.
        classes: of which runs the classes and mistakes are shown: all, those on a Pareto front, or none.
        has_curves: whether training curves are shown.
        omitted: what a reader is told.
    """

    mistakes: int = MOST_MISTAKES
    classes: Literal["all", "front", "none"] = "all"
    has_curves: bool = True
    omitted: str = ""

    def shows_classes(self, entry: Entry) -> bool:
        """Return whether the classes of a run are shown."""
        return self.classes == "all" or (self.classes == "front" and bool(entry.fronts))


MOST_BYTES = 1_400_000  # of a page; if it would be larger, less is shown of each run
DETAILS = (
    Detail(),
    Detail(3, omitted="Only three mistakes of each domain are shown"),
    Detail(3, "front", omitted="Classes and mistakes are shown only for runs on a Pareto front"),
    Detail(0, "none", omitted="Classes and mistakes are left out"),
    Detail(0, "none", has_curves=False, omitted="Classes, mistakes and training curves are left out"),
)


@dataclass(frozen=True)
class Chart:
    """A figure on the page: its id, its title, its SVG and its legend."""

    name: str
    title: str
    svg: str
    keys: Sequence[Key]

    @classmethod
    def of(cls, name: str, kind: str, drawing: Drawing, **words: str) -> Chart:
        """Render a drawing, with words for its title."""
        return cls(name, TITLES[kind].format(**words), drawing.svg(name), drawing.keys)


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
    known = {
        "title": alone.name if alone else plural(len(runs), "run"),
        "headline": headline(alone) if alone else [],
        "summary": summary(alone.results) if alone else "",
        "methods": _methods(runs),
        "boards": shown_boards,
        "runs": shown_runs,
        "left_out": left_out,
        "version": __version__,
        "page_versions": _versions(),
        "css": (TEMPLATES / "page.css").read_text("utf-8"),
        "script": (TEMPLATES / "page.js").read_text("utf-8"),
        "icon": (TEMPLATES / "icon.svg").read_text("utf-8"),
    }
    return _render_small(environment.get_template("page.html"), known)


def _render_small(template: Template, known: Mapping[str, object]) -> str:
    """Render with as much detail as a small page can hold."""
    *larger, smallest = DETAILS
    for detail in larger:
        page = template.render(known, detail=detail)
        if len(page.encode()) <= MOST_BYTES:
            return page
    return template.render(known, detail=smallest)


def _methods(runs: Sequence[ReportedRun]) -> dict[str, str]:
    """Describe the methods of runs, as far as they are known."""
    described = {run.results.method: find_described(run.results.method) for run in runs}
    return {name: method.summary for name, method in sorted(described.items()) if method}


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
    environment.filters |= {"percent": percent, "accuracy": accuracy_text, "file_size": file_size}
    environment.filters |= {"last_part": last_part, "short": short}
    environment.tests["penalty"] = is_penalty
    return environment


def _visible(value: object) -> object:
    """Make what could not be seen in a foreign text visible; markup of the page itself is kept."""
    return shown(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _show_board(number: int, board: Board) -> dict[str, object]:
    drawings = board_figures(board)
    has_scores = any(entry.row.scores for entry in board.entries)
    scores = [*SCORES] if has_scores else []
    groups = [("", 1), ("accuracy, %", 1), ("% of the backbone", len(COSTS))]
    groups += [("accuracy by domain, %", len(board.domains)), *([("scores", len(scores))] if scores else [])]
    return {
        "backbone": board.backbone,
        "split": board.split,
        "domains": board.domains,
        "charts": [Chart.of(f"board-{number}-{kind}", kind, drawing) for kind, drawing in drawings.items()],
        "has_points": "summary" not in drawings,
        "has_front": any(key.name == "Pareto front" for drawing in drawings.values() for key in drawing.keys),
        "has_scores": has_scores,
        "groups": groups,
        "header": ["method", "mean", *reversed(COSTS.values()), *_titles(board), *scores],
        "rows": list(zip(board.entries, _cells(board, len(scores)), strict=True)),
        "notes": " ".join(f"{note}." for note in _notes(board)),
        "has_feature_extractor": board.has_feature_extractor,
    }


def _notes(board: Board) -> Iterator[str]:
    """Explain the signs that occur in the table."""
    if any(entry.label.endswith(OVER) for entry in board.entries):
        yield OVER_NOTE
    if near_best(board.comparison.rows):
        yield near_note(board.comparison)


def _titles(board: Board) -> list[str]:
    return [marked(name, board.source) for name in board.domains]


def _cells(board: Board, scores: int) -> list[list[str]]:
    """Return the rows of the table without their labels: mean, costs, domains and scores."""
    rows = table_cells(board.comparison)[1:]
    after_mean = FIRST_DOMAIN + len(board.domains) + 1
    return [
        [
            row[after_mean - 1],
            *(f"{cost_of(entry.run.results, cost):.1f}" for cost in reversed(COSTS)),
            *row[FIRST_DOMAIN : after_mean - 1],
            *row[after_mean : after_mean + scores],
        ]
        for entry, row in zip(board.entries, rows, strict=True)
    ]


def _show_run(entry: Entry) -> dict[str, object]:
    charts_by_kind: dict[str, list[Chart]] = {kind: [] for kind in KINDS}
    images = accuracy_kind(entry.run.epochs)
    for name, drawing in run_figures(entry.run).items():  # of latency there is one per number of threads: latency-2
        kind = name.partition("-")[0]
        charts_by_kind[kind].append(Chart.of(f"{entry.anchor}-{name}", kind, drawing, images=images))
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
        "facts": headline(entry.run),
        "summary": summary(results),
        "parts": {part: count for part, count in contents.bytes_by_part.items() if count},
        "speeds": [(speed_name(speed), speed) for speed in entry.run.bench.speeds] if entry.run.bench else [],
    }
