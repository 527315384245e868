"""Figures of one run, as plain data for plotly.js: usage, sharing, training, latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prunus.measure.speed import Benchmark, Speed
from prunus.report.page.plot import HIGH, INK, LOW, MUTED, Plot, colour, named_ticks, plain
from prunus.report.page.run import ReportedRun

ANY = "any domain"
OURS = "Prunus"


def run_figures(run: ReportedRun) -> dict[str, Plot]:
    """Draw everything that is known of a run; what is not known is not there."""
    found: dict[str, Plot] = {}
    if run.contents.layers:
        found["usage"] = usage_figure(run)
    if len(run.contents.sharing) > 1:
        found["sharing"] = sharing_figure(run.contents.sharing)
    if run.epochs:
        found["learning"] = learning_figure(run)
        found["pruning"] = pruning_figure(run)
    if run.bench:
        counts = dict.fromkeys(speed.threads for speed in run.bench.speeds)
        found |= {f"latency-{count}": latency_figure(run.bench, count) for count in counts}
    return found


def usage_figure(run: ReportedRun) -> Plot:
    """Draw the share of each layer's kernels that each domain, and any domain, uses."""
    layers = run.contents.layers
    domains = list(layers[0].usage)
    rows = [[100 * layer.usage[name] for name in domains] + [100 * layer.union] for layer in layers]
    names = [layer.name for layer in layers]
    figure = _heat_map(rows, [*domains, ANY], names, "%{y}<br>%{x}: %{z:.1f} % of the kernels")
    figure["layout"]["height"] = 110 + 24 * len(layers)
    return figure


def sharing_figure(sharing: Mapping[str, Mapping[str, float]]) -> Plot:
    """Draw how much every two domains share."""
    names = list(sharing)
    rows = [[100 * share for share in row.values()] for row in sharing.values()]
    figure = _heat_map(rows, names, names, "%{y} and %{x}: %{z:.1f} % of the kernels of either are used by both")
    figure["layout"]["height"] = 120 + 44 * len(names)
    return figure


def learning_figure(run: ReportedRun) -> Plot:
    """Draw the accuracy of every domain over the epochs; on held-out images where there are some."""
    held_out = any(each.validation_accuracy is not None for e in run.epochs for each in e.domains.values())
    data = []
    for number, name in enumerate(run.results.domains):
        own = [(epoch.epoch + 1, epoch.domains[name]) for epoch in run.epochs if name in epoch.domains]
        shares = [each.validation_accuracy if held_out else each.train_accuracy for _, each in own]
        data.append(_curve(name, [x for x, _ in own], shares, colour(number)))
    return _curves(data, f"{'validation' if held_out else 'training'} accuracy, %")


def pruning_figure(run: ReportedRun) -> Plot:
    """Draw the usage of every domain and of any domain over the epochs, and the budget."""
    data = []
    for number, name in enumerate(run.results.domains):
        own = [(epoch.epoch + 1, epoch.domains[name].usage) for epoch in run.epochs if name in epoch.domains]
        data.append(_curve(name, [x for x, _ in own], [share for _, share in own], colour(number)))
    places = [epoch.epoch + 1 for epoch in run.epochs]
    union = _curve(ANY, places, [epoch.union for epoch in run.epochs], INK)
    data.append(union | {"line": {"color": INK, "width": 3}})
    if run.results.budget is not None:
        budget = _curve("budget", places, [run.results.budget] * len(places), MUTED)
        data.append(budget | {"mode": "lines", "line": {"color": MUTED, "width": 2, "dash": "dash"}})
    return _curves(data, "kernels used, %")


def latency_figure(bench: Benchmark, threads: int) -> Plot:
    """Draw every engine's latency as bars; ours in colour."""
    speeds = [speed for speed in bench.speeds if speed.threads == threads]
    bars: Plot = {
        "type": "bar",
        "orientation": "h",
        "x": [speed.latency.median_ms for speed in speeds],
        "y": [plain(speed_name(speed)) for speed in speeds],
        "text": [f"{speed.latency.median_ms:.3g}" for speed in speeds],
        "textposition": "auto",
        "customdata": [[speed.latency.p95_ms, speed.images_per_second] for speed in speeds],
        "marker": {"color": [colour(0) if speed.engine == OURS else MUTED for speed in speeds]},
        "hovertemplate": (
            "<b>%{y}</b><br>median %{x:.3g} ms, 95 % of the images within %{customdata[0]:.3g} ms<br>"
            f"%{{customdata[1]:,.0f}} images per second in batches of {bench.batch}<extra></extra>"
        ),
    }
    title = f"milliseconds for one image, {threads} thread{'s' * (threads > 1)}"
    layout = {
        "height": 110 + 24 * len(speeds),
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }
    return {"data": [bars], "layout": layout}


def speed_name(speed: Speed) -> str:
    """Name an engine and what it computed."""
    return f"{speed.engine}, {speed.domain}" if speed.domain else speed.engine


def _heat_map(rows: Sequence[Sequence[float]], xs: Sequence[str], ys: Sequence[str], hover: str) -> Plot:
    trace = {
        "type": "heatmap",
        "x": [plain(name) for name in xs],
        "y": [plain(name) for name in ys],
        "z": [list(row) for row in rows],
        "zmin": 0,
        "zmax": 100,
        "xgap": 1,
        "ygap": 1,
        "colorscale": [[0, LOW], [1, HIGH]],
        "showscale": False,
        "texttemplate": "%{z:.0f}",
        "textfont": {"color": INK},
        "hovertemplate": f"{hover}<extra></extra>",
    }
    shared = {"type": "category", "showgrid": False, "automargin": True}
    layout = {
        "margin": {"l": 56, "r": 12, "t": 12, "b": 12},
        "xaxis": shared | {"side": "top"} | named_ticks(xs),
        "yaxis": shared | {"autorange": "reversed"} | named_ticks(ys),
    }
    return {"data": [trace], "layout": layout}


def _curve(name: str, places: Sequence[int], shares: Sequence[float | None], shade: str) -> Plot:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(name),
        "x": list(places),
        "y": [None if share is None else 100 * share for share in shares],
        "line": {"color": shade, "width": 2},
        "marker": {"size": 5},
        "hovertemplate": "epoch %{x}: %{y:.1f} %",
    }


def _curves(data: list[Plot], title: str) -> Plot:
    whole = {"title": {"text": "epoch"}, "tickformat": "d"}
    layout = {"height": 400, "xaxis": whole, "yaxis": {"title": {"text": title}, "rangemode": "tozero"}}
    return {"data": data, "layout": layout | {"showlegend": True, "hovermode": "x unified"}}
