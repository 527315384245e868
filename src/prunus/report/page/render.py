"""One HTML page about runs, with everything in it: it needs no network and tells nobody that it is read."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from prunus.errors import MissingExtraError
from prunus.report.comparison import OVER, OVER_NOTE, SCORES, table_cells
from prunus.report.page.board import Board, Entry, make_boards
from prunus.report.page.board_figures import COSTS, domains_figure, tradeoff_figure
from prunus.report.page.plot import Plot
from prunus.report.page.reading import last_part
from prunus.report.page.run import ReportedRun
from prunus.report.page.run_figures import run_figures, speed_name
from prunus.report.tables import megabytes, percent
from prunus.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
KINDS = ("usage", "sharing", "learning", "pruning", "latency")


def render_page(runs: Sequence[ReportedRun], left_out: Mapping[str, str]) -> str:
    """Write the page; the same runs give the same text.

    Args:
        left_out: what was asked for and is not shown -> why.
    """
    boards = make_boards(runs)
    figures: dict[str, Plot] = {}
    shown = [_show_board(number, board, figures) for number, board in enumerate(boards, 1)]
    alone = runs[0] if len(runs) == 1 + len(runs[0].results.baselines) else None
    entries = [entry for board in boards for entry in board.entries]
    entries.sort(key=lambda entry: entry.run is not alone)
    environment = _environment()
    return str(
        environment.get_template("page.html").render(
            title=alone.name if alone else f"{len(runs)} runs",
            headline=_facts(alone) if alone else [],
            boards=shown,
            runs=[_show_run(entry, figures) | {"open": entry.run is alone} for entry in entries],
            left_out=left_out,
            figures=figures,
            version=__version__,
            page_versions=_versions(),
            css=(TEMPLATES / "page.css").read_text(),
            script=(TEMPLATES / "page.js").read_text(),
            plotly=_plotly_script(),
        )
    )


def _versions() -> dict[str, str]:
    """Tell what is at work here; torch is asked without being loaded."""
    with contextlib.suppress(PackageNotFoundError):
        return {"prunus": __version__, "torch": version("torch").split("+")[0]}
    return {"prunus": __version__}


def _environment() -> Any:  # noqa: ANN401  # the package is optional
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("jinja2", "report", "writing a page") from None
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "megabytes": megabytes, "last_part": last_part}
    return environment


def _plotly_script() -> str:
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("plotly", "report", "writing a page") from None
    return str(get_plotlyjs())


def _show_board(number: int, board: Board, figures: dict[str, Plot]) -> dict[str, Any]:
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
        "feature": board.feature,
    }


def _show_run(entry: Entry, figures: dict[str, Plot]) -> dict[str, Any]:
    own = {f"{entry.anchor}-{kind}": plot for kind, plot in run_figures(entry.run).items()}
    figures |= own
    kinds: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for name in own:
        kinds[re.sub(r"^run-\d+-|-\d+$", "", name)].append(name)  # run-3-latency-2 -> latency
    results = entry.run.results
    return {
        "entry": entry,
        "run": entry.run,
        "results": results,
        "figures": kinds,
        "facts": _facts(entry.run),
        "over": [name for name, each in results.domains.items() if results.budget and each.usage > results.budget],
        "speeds": [(speed_name(speed), speed) for speed in entry.run.bench.speeds] if entry.run.bench else [],
    }


def _facts(run: ReportedRun) -> list[tuple[str, str, str]]:
    """List the numbers one looks for first: what, how much, of what."""
    results = run.results
    size = results.stored_bytes if results.model_bytes is None else results.model_bytes
    facts = [
        ("mean accuracy", percent(results.mean_accuracy), f"{results.split} images of {len(results.domains)} domains"),
        ("kernels used", percent(results.largest_usage), f"by the largest domain; any domain {percent(results.union)}"),
        ("parameters", percent(results.params_ratio), "of the dense backbone, switches counted in"),
        ("computation", percent(results.macs_ratio), f"of its {results.dense_macs / 1e6:,.1f} M MACs per image"),
        (
            "bytes",
            megabytes(size),
            f"with all heads and norms; the dense backbone alone {megabytes(results.dense_bytes)}",
        ),
    ]
    if run.bench:
        ours = [each for each in run.bench.speeds if each.engine == "Prunus"]
        least = min(ours or run.bench.speeds, key=lambda each: each.threads).threads
        times = [each.latency.median_ms for each in ours or run.bench.speeds if each.threads == least]
        latency = f"{sum(times) / len(times):.3g} ms"
        facts.append(("latency", latency, f"for one image, {least} thread{'s' * (least > 1)}, mean over the domains"))
    return facts
