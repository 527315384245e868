"""Figures of one run: usage, sharing, training and latency."""

from collections.abc import Mapping, Sequence

from prunus.amounts import plural
from prunus.measure.cost import CostReport
from prunus.measure.speed import Benchmark
from prunus.report.page.plot import HIGH, INK, LOW, MUTED, Plot, colour, named_ticks, plain
from prunus.report.page.run import ReportedRun
from prunus.report.speed import speed_name
from prunus.report.training_curves import (
    ANY,
    Curve,
    accuracy_curves,
    accuracy_kind,
    union_curve,
    usage_curves,
)
from prunus.run_folder import EpochReport

OURS = "Prunus"
FEW_EPOCHS = 10  # that all get a tick


def run_figures(run: ReportedRun) -> dict[str, Plot]:
    """Draw what is known of a run, by name."""
    figures: dict[str, Plot] = {}
    if run.contents.costs:
        figures["usage"] = usage_figure(run.contents.costs)
    if len(run.contents.sharing) > 1:
        figures["sharing"] = sharing_figure(run.contents.sharing)
    if run.epochs:
        figures["learning"] = learning_figure(run.epochs)
        figures["pruning"] = pruning_figure(run.epochs, run.results.budget)
    if run.bench:
        counts = dict.fromkeys(speed.threads for speed in run.bench.speeds)
        figures |= {f"latency-{count}": latency_figure(run.bench, count) for count in counts}
    return figures


def usage_figure(costs: CostReport) -> Plot:
    """Draw the share of each layer's kernels used by each domain and by any domain."""
    rows = [[*costs.layer_usage(layer).values(), layer.union / layer.num_kernels] for layer in costs.layers]
    names = [layer.name for layer in costs.layers]
    figure = _heat_map(rows, [*costs.domains, ANY], names, "%{y}<br>%{x}: %{z:.1f} % of the kernels")
    figure["layout"]["height"] = 110 + 24 * len(names)
    return figure


def sharing_figure(sharing: Mapping[str, Mapping[str, float]]) -> Plot:
    """Draw how much each pair of domains shares."""
    names = list(sharing)
    rows = [list(row.values()) for row in sharing.values()]
    figure = _heat_map(rows, names, names, "%{y} and %{x}: both use %{z:.1f} % of the kernels that either uses")
    figure["layout"]["height"] = 120 + 44 * len(names)
    return figure


def learning_figure(epochs: Sequence[EpochReport]) -> Plot:
    """Draw every domain's accuracy over the epochs, on validation images if there are any."""
    data = [_trace(curve, colour(number)) for number, curve in enumerate(accuracy_curves(epochs))]
    return _curves(data, f"{accuracy_kind(epochs)} accuracy, %")


def pruning_figure(epochs: Sequence[EpochReport], budget: float | None) -> Plot:
    """Draw the usage of each domain and of any domain over the epochs, and the budget."""
    data = [_trace(curve, colour(number)) for number, curve in enumerate(usage_curves(epochs))]
    union = union_curve(epochs)
    data.append(_trace(union, INK) | {"line": {"color": INK, "width": 3}})
    if budget is not None:
        limit = Curve("budget", union.epochs, [100 * budget] * len(union.epochs))
        line = {"color": MUTED, "width": 2, "dash": "dash"}
        data.append(_trace(limit, MUTED) | {"mode": "lines", "line": line})
    return _curves(data, "kernels used, %")


def latency_figure(bench: Benchmark, threads: int) -> Plot:
    """Draw every engine's latency as a bar, Prunus in colour."""
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
            "<b>%{y}</b><br>median %{x:.3g} ms, 95th percentile %{customdata[0]:.3g} ms<br>"
            f"%{{customdata[1]:,.0f}} images per second in batches of {bench.batch}<extra></extra>"
        ),
    }
    title = f"milliseconds for one image, {plural(threads, 'thread')}"
    layout = {
        "height": 110 + 24 * len(speeds),
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True},
    }
    return {"data": [bars], "layout": layout}


def _heat_map(rows: Sequence[Sequence[float]], xs: Sequence[str], ys: Sequence[str], hover: str) -> Plot:
    trace = {
        "type": "heatmap",
        "x": [plain(name) for name in xs],
        "y": [plain(name) for name in ys],
        "z": [[100 * share for share in row] for row in rows],
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


def _trace(curve: Curve, shade: str) -> Plot:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": plain(curve.name),
        "x": curve.epochs,
        "y": curve.values,
        "line": {"color": shade, "width": 2},
        "marker": {"size": 5},
        "hovertemplate": "epoch %{x}: %{y:.1f} %",
    }


def _curves(data: list[Plot], title: str) -> Plot:
    axis: Plot = {"title": {"text": "epoch"}, "tickformat": "d"}
    if all(len(trace["x"]) <= FEW_EPOCHS for trace in data):
        axis["dtick"] = 1  # plotly.js would label half epochs too, rounded
    layout = {"height": 400, "xaxis": axis, "yaxis": {"title": {"text": title}, "rangemode": "tozero"}}
    return {"data": data, "layout": layout | {"showlegend": True, "hovermode": "x unified"}}
