"""Figures that compare runs: accuracy against cost, and the accuracy of every domain."""

from collections.abc import Sequence

from prunus.measure.score import FEATURE
from prunus.report.page.board import COSTS, Board, Entry, positions
from prunus.report.page.plot import CARD, INK, MUTED, Plot, colour, named_ticks, plain

WIDE = 5  # costs that differ by a larger factor are drawn on a logarithmic axis
TICKS = [percent * 10**power for power in range(-2, 5) for percent in (1, 2, 5)]


def series(board: Board) -> dict[str, list[Entry]]:
    """Group runs into series: the feature extractor, other methods without a budget, and each method with budgets."""
    entries_by_name: dict[str, list[Entry]] = {}
    for entry in board.entries:
        method = entry.run.results.method
        without_budget = "feature extractor" if method == FEATURE else "no budget"
        name = without_budget if entry.run.results.budget is None else method
        entries_by_name.setdefault(name, []).append(entry)
    return entries_by_name


def series_style(board: Board) -> dict[str, tuple[str, str]]:
    """Return the colour and symbol of every series."""
    fixed = {"feature extractor": (INK, "star"), "no budget": (MUTED, "diamond")}
    budgeted = [name for name in series(board) if name not in fixed]
    return fixed | {name: (colour(number), "circle") for number, name in enumerate(budgeted)}


def tradeoff_figure(board: Board, cost: str) -> Plot:
    """Draw mean accuracy against a cost: a point per run, the Pareto front, and the dense backbone at 100 %."""
    styles = series_style(board)
    front = board.front(cost)
    best_xs, best_ys = positions(front, cost)
    best: Plot = {"type": "scatter", "mode": "lines", "name": "Pareto front", "x": best_xs, "y": best_ys}
    best["line"] = {"color": INK, "width": 2, "dash": "dot"}
    costs, heights = positions(board.entries, cost)
    margin = 0.08 * (max(heights) - min(heights)) or 1.0
    limits = [min(heights) - margin, max(heights) + margin]
    dense: Plot = {"type": "scatter", "mode": "lines", "name": "dense backbone", "x": [100, 100], "y": limits}
    dense["line"] = {"color": MUTED, "width": 1.5, "dash": "dash"}
    lines = [dense, best] if len(front) > 1 else [dense]  # a single point makes no line
    data = [line | {"hoverinfo": "skip"} for line in lines]  # drawn first, below the points
    data += [_points(name, entries, cost, styles[name]) for name, entries in series(board).items()]
    axis: Plot = {"title": {"text": f"{COSTS[cost]}, % of the backbone"}}
    axis |= {"type": "log", "tickvals": TICKS} if is_wide(costs) else {"rangemode": "tozero"}
    layout = {
        "height": 460,
        "xaxis": axis,
        "yaxis": {"title": {"text": "mean accuracy, %"}, "range": limits},
        "showlegend": True,
    }
    return {"data": data, "layout": layout}


def is_wide(costs: Sequence[float]) -> bool:
    """Return whether costs differ so much, from each other or from the dense backbone, that the axis is logarithmic."""
    return 0 < WIDE * min(costs) < max(100.0, *costs)


def domains_figure(board: Board) -> Plot:
    """Draw the accuracy of every run in every domain: a row per domain, a point per run."""
    styles = series_style(board)
    data = []
    for name, entries in series(board).items():
        pairs = [(entry, domain) for entry in entries for domain in board.domains]
        data.append(
            _markers(name, [entry for entry, _ in pairs], styles[name])
            | {
                "x": [100 * entry.run.results.domains[domain].accuracy for entry, domain in pairs],
                "y": [plain(domain) for _, domain in pairs],
                "hovertemplate": "<b>%{text}</b><br>%{y}: %{x:.1f} %<extra></extra>",
            }
        )
    layout = {
        "height": 140 + 46 * len(board.domains),
        "xaxis": {"title": {"text": "accuracy, %"}},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True} | named_ticks(board.domains),
        "showlegend": True,
    }
    return {"data": data, "layout": layout}


def _points(name: str, entries: Sequence[Entry], cost: str, style: tuple[str, str]) -> Plot:
    xs, ys = positions(entries, cost)
    rows = [entry.row for entry in entries]
    numbers = [[r.params_ratio, r.macs_ratio, r.largest_usage, r.union, r.stored_bytes / 1e6] for r in rows]
    details = [[entry.anchor, *row] for entry, row in zip(entries, numbers, strict=True)]
    return _markers(name, entries, style) | {
        "x": xs,
        "y": ys,
        "customdata": details,
        "hovertemplate": (
            "<b>%{text}</b><br>mean accuracy %{y:.1f} %<br>parameters %{customdata[1]:.1%}, MACs %{customdata[2]:.1%}"
            "<br>kernels: largest domain %{customdata[3]:.1%}, any domain %{customdata[4]:.1%}"
            "<br>%{customdata[5]:.2f} MB to store<extra></extra>"
        ),
    }


def _markers(name: str, entries: Sequence[Entry], style: tuple[str, str]) -> Plot:
    shade, symbol = style
    size = 14 if symbol == "star" else 10
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "text": [plain(f"{entry.label} ({entry.run.name})") for entry in entries],
        "marker": {"color": shade, "symbol": symbol, "size": size, "line": {"color": CARD, "width": 1}},
    }
