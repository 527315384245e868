"""Results as tables for a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from prunus.measure.evaluation import Evaluation


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share as a percentage."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def megabytes(count: int) -> str:
    """Write a number of bytes (1 MB = 10^6 bytes)."""
    return f"{count / 1e6:.2f} MB"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def results_view(results: Evaluation, baseline: Evaluation | None = None) -> Group:
    """Show a model domain by domain, beside a baseline if one is given, and what it costs in all."""
    return Group(Text(_title(results), style="bold"), _table(results, baseline), Text(_notes(results)))


def _table(results: Evaluation, baseline: Evaluation | None) -> Table:
    table = Table()
    table.add_column("domain")
    table.add_column("accuracy", justify="right")
    if baseline:
        table.add_column("frozen features", justify="right", style="dim")
    table.add_column("kernels used", justify="right")
    table.add_column("computation", justify="right")
    for name, entry in results.domains.items():
        other = [percent(baseline.domains[name].accuracy)] if baseline else []
        table.add_row(name, percent(entry.accuracy), *other, percent(entry.usage), percent(entry.macs_ratio))
    table.add_section()
    other = [percent(baseline.mean_accuracy)] if baseline else []
    mean_usage = sum(entry.usage for entry in results.domains.values()) / len(results.domains)
    table.add_row(
        "mean",
        percent(results.mean_accuracy),
        *other,
        percent(mean_usage),
        percent(results.macs_ratio),
        style="bold",
    )
    other = ["-"] if baseline else []
    table.add_row("any domain", "-", *other, percent(results.union), "-")
    return table


def _title(results: Evaluation) -> str:
    settings = [f"{key} {value}" for key, value in results.options.items()]
    if results.sharing and results.sharing != results.method:
        settings.append(f"{results.sharing} loss")
    method = f"method {results.method}" + (f" ({', '.join(settings)})" if settings else "")
    budget = f", budget {percent(results.budget, 0)} of the kernels" if results.budget else ""
    return f"{results.backbone}: {len(results.domains)} domains, {method}{budget} ({results.split} split)"


def _bytes(results: Evaluation) -> str:
    dense = f"the dense backbone alone is {megabytes(results.dense_bytes)}"
    if results.model_bytes is None:
        return f"to be stored: {megabytes(results.stored_bytes)} with all heads and norms; {dense}"
    return f"on disk: {megabytes(results.model_bytes)}, all heads and norms in it; {dense}"


def _notes(results: Evaluation) -> str:
    lines = [
        f"parameters: {percent(results.params_ratio)} of the backbone's convolution weights "
        "(what any domain reads or owns, 1 bit per switch and domain)",
        _bytes(results),
        f"computation: share of the backbone's {results.dense_macs / 1e6:.1f} M convolution MACs per image; "
        f"mean with an unpruned source domain: {percent(results.macs_ratio_with_source)}",
        f"sparsity (kernels no domain uses, mean over layers): {percent(results.sparsity)}; "
        f"kernels all domains use: {percent(results.intersection)}",
    ]
    if scores := results.scores:
        named = {"S": scores.s, "S_O": scores.s_o, "S_P": scores.s_p, "S_E": scores.s_e}
        lines.append(", ".join(f"{name} {value:.4g}" for name, value in named.items() if value is not None))
    done, total = results.steps
    if done < total:
        lines.append(f"unfinished: step {done} of {total}; go on with: prunus train --resume RUN")
    if results.over_budget:
        lines.append(f"over budget: {', '.join(results.over_budget)}; train longer or raise training.dual_rate")
    return "\n".join(lines)
