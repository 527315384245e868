"""What the page knows of a run, and what it says first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prunus.amounts import plural
from prunus.catalog import find_described
from prunus.measure.budget import in_words
from prunus.measure.cost import CostReport
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import FEATURE
from prunus.measure.speed import Benchmark
from prunus.report.tables import accuracy_text, file_size, percent
from prunus.run_folder import EpochReport

OURS = "Prunus"  # the engine, in timings
Fact = tuple[str, str, str]  # name, value, explanation


@dataclass(frozen=True)
class Contents:
    """What a run's network or model file contains.

    Args:
        costs: kernels used in each layer; None if it is unknown.
        sharing: for two domains, kernels that both use / kernels that either uses; empty without switches.
        bytes_by_part: size of each part of the model file; empty without one.
        versions: of the packages that made the model file.
    """

    costs: CostReport | None = None
    sharing: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bytes_by_part: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportedRun:
    """A run as the page shows it.

    Args:
        recipe: key -> value as JSON, without the folders of this machine.
        versions: of the packages that trained it; empty if the run does not record them.
        notes: what could not be read, and what to do about it.
    """

    name: str
    results: Evaluation
    recipe: Mapping[str, str] = field(default_factory=dict)
    epochs: tuple[EpochReport, ...] = ()
    bench: Benchmark | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = field(default_factory=Contents)
    notes: tuple[str, ...] = ()


def summary(results: Evaluation) -> str:
    """Say in a few sentences what was trained, and whether its budget was kept."""
    described = find_described(results.method)
    method = f"Method {results.method}" + (f": {described.summary}." if described else ".")
    domains = plural(len(results.domains), "domain")
    return " ".join([f"{results.backbone} on {domains}.", method, *_budget_sentences(results)])


def _budget_sentences(results: Evaluation) -> Iterator[str]:
    if results.budget is not None:
        yield f"Budget (β): {100 * results.budget:g} % of the kernels."
    if results.budget_kept:
        yield f"It was kept: {in_words(results.limits)}."
    elif results.limits and results.over_budget:
        yield f"It was missed: {in_words(limit for limit in results.limits if not limit.kept)}."
    elif results.over_budget:
        yield f"It was exceeded by {', '.join(results.over_budget)}."


def headline(run: ReportedRun) -> list[Fact]:
    """List the most important numbers of a run."""
    results = run.results
    domains = plural(len(results.domains), "domain")
    size = results.stored_bytes if results.model_bytes is None else results.model_bytes
    frozen = _frozen_accuracy(results)
    compared = "" if frozen is None else f"; {percent(frozen)} with the frozen backbone"
    facts = [
        (
            "mean accuracy",
            accuracy_text(results.mean_accuracy, results.mean_accuracy_interval),
            f"on {_images(results)}{results.split} images of {domains}{compared}",
        ),
        (
            "kernels used",
            percent(results.union),
            f"by all domains together; at most {percent(results.largest_usage)} by one domain",
        ),
        ("parameters", percent(results.params_ratio), "of the dense backbone, including switches"),
        (
            "computation",
            percent(results.macs_ratio),
            f"of the backbone's {results.dense_macs / 1e6:,.1f} M MACs per image",
        ),
        ("size", file_size(size), f"for {domains}; the dense backbone alone takes {file_size(results.dense_bytes)}"),
    ]
    return [*facts, _latency(run.bench)] if run.bench else facts


def _images(results: Evaluation) -> str:
    return f"{sum(results.images.values()):,} " if len(results.images) == len(results.domains) else ""


def _frozen_accuracy(results: Evaluation) -> float | None:
    if baseline := results.baselines.get(FEATURE):
        return baseline.mean_accuracy
    known = list(results.frozen_accuracies.values())
    return sum(known) / len(known) if len(known) == len(results.domains) else None


def _latency(bench: Benchmark) -> Fact:
    """Compare the mean latency of a model with that of the fastest dense network on as many threads."""
    speeds = [speed for speed in bench.speeds if speed.engine == OURS] or bench.speeds
    threads = min(speed.threads for speed in speeds)
    times = [speed.latency.median_ms for speed in speeds if speed.threads == threads]
    dense = [speed for speed in bench.speeds if speed.domain is None and speed.threads == threads]
    fastest = min(dense, key=lambda speed: speed.latency.median_ms, default=None)
    compared = f"; {fastest.engine} {fastest.latency.median_ms:.3g} ms" if fastest else ""
    return "latency", f"{sum(times) / len(times):.3g} ms", f"for one image, {plural(threads, 'thread')}{compared}"
