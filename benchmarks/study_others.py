"""What the rows of the study say that no claim of the paper is about: comparisons with another row."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence, Set

from benchmarks.study_grid import LOSSES
from benchmarks.study_judging import paired, points, reach_of_images, row
from benchmarks.study_results import Runs, StudyRun

OURS = ("exact-0.25", "exact-0.125", "exact-0.0625")
# title -> (row, the row that it is compared with)
COMPARISONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "The union loss against BA²": [(f"union-{beta:g}", f"ba2-{beta:g}") for beta in (0.75, 0.5, 0.25)],
    "Three times as many epochs": [("ba2-0.25-long", "ba2-0.25"), ("union-0.25-long", "union-0.25")],
    "The source domain left to the unpruned backbone": [
        ("union-0.25-source_apart", "union-0.25"),
        ("exact-0.25-source_apart", "exact-0.25"),
    ],
    "Budgets per layer and by MACs": [(f"budget_per-{unit}", "order-ba2-round_robin") for unit in ("layer", "macs")],
    "Every domain trained by itself, without a limit": [("ba2_individual-1", "ba2-1")],
    "Our own method against fine-tuning": [(name, "finetune") for name in OURS],
    "Our own method against the paper's": [("exact-0.25", "union-0.25"), ("exact-0.25", "ba2-0.25")],
    "Other methods against fine-tuning": [
        (name, "finetune") for name in ("bn", "piggyback", "parallel_adapters", "taps-1", "taps-0.25")
    ],
    "The rate at which the weight of a loss is learned, against 0.5": [
        (f"dual_rate-{loss}-{rate:g}", f"learned-{loss}-0.25") for loss in ("union", "jaccard") for rate in (0.1, 0.01)
    ],
    "Fixed weights of the losses, against learned ones": [
        (f"fixed-{loss}-{weight:g}", f"learned-{loss}-0.25") for weight in (1.0, 0.125) for loss in LOSSES
    ],
}


def others(runs: Runs, source: str | None) -> str:
    """Return a table of comparisons per title, of the rows that have runs of the same seeds.

    Args:
        source: the domain that the backbone was pretrained on; accuracies are compared with and without it.
    """
    sections = []
    for title, pairs in COMPARISONS.items():
        lines = [_line(runs, name, base, source) for name, base in pairs if shared_seeds(runs, name, base)]
        if lines:
            sections.append("\n".join([f"**{title}**", "", _head(source), *lines, ""]))
    return "\n".join(sections) or "None of these rows has been measured yet.\n"


def _head(source: str | None) -> str:
    titles = ["row", "against", "points", "by images", "together", "MACs", "Params"]
    if source is not None:
        titles.insert(4, "points without the source")
    return f"| {' | '.join(titles)} |\n| --- | --- |{' ---: |' * (len(titles) - 2)}"


def shared_seeds(runs: Runs, name: str, base: str) -> list[int]:
    """List the seeds that were measured of both rows."""
    return [run.seed for run in row(runs, name) if (base, run.seed) in runs]


def _line(runs: Runs, name: str, base: str, source: str | None) -> str:
    """Compare a row with another one: accuracies in the domains that both have, and what they use."""
    found, compared = ([runs[key, seed] for seed in shared_seeds(runs, name, base)] for key in (name, base))
    common = found[0].accuracies.keys() & compared[0].accuracies.keys()
    gain = paired(runs, name, base, lambda run: points(in_domains(run, common)))
    reach = 100 * reach_of_images(in_domains(found[0], common), in_domains(compared[0], common))
    cells = [f"`{name}`", f"`{base}`", gain.written(), f"± {reach:.1f}"]
    if source is not None:
        cells.append(paired(runs, name, base, lambda run: points(in_domains(run, common - {source}))).written())
    cells += [f"{_mean(found, key)} / {_mean(compared, key)}" for key in ("union", "macs_ratio", "params_ratio")]
    return f"| {' | '.join(cells)} |"


def in_domains(run: StudyRun, domains: Set[str]) -> StudyRun:
    """Return a run with the accuracies of some domains only."""
    accuracies = {domain: accuracy for domain, accuracy in run.accuracies.items() if domain in domains}
    mean = statistics.fmean(accuracies.values())
    return run.model_copy(update={"accuracies": accuracies, "mean_accuracy": mean})


def _mean(runs: Sequence[StudyRun], key: str) -> str:
    return f"{statistics.fmean(getattr(run, key) for run in runs):.3f}"
