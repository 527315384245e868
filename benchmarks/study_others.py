"""What the rows of the study say that no claim of the paper is about: comparisons with another row."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.study_grid import LOSSES
from benchmarks.study_judging import Difference, paired, row
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


def others(runs: Runs) -> str:
    """Return a list of comparisons per title, of the rows that have runs of the same seeds."""
    sections = []
    for title, pairs in COMPARISONS.items():
        lines = [against(runs, name, base) for name, base in pairs if shared_seeds(runs, name, base)]
        if lines:
            sections.append("\n".join([f"**{title}:**", "", *(f"- {line}" for line in lines), ""]))
    return "\n".join(sections) or "None of these rows has been measured yet.\n"


def shared_seeds(runs: Runs, name: str, base: str) -> list[int]:
    """List the seeds that were measured of both rows."""
    return [run.seed for run in row(runs, name) if (base, run.seed) in runs]


def against(runs: Runs, name: str, base: str) -> str:
    """Compare a row with another one: accuracies in the domains that both have, and what they use."""
    seeds = shared_seeds(runs, name, base)
    common = runs[name, seeds[0]].accuracies.keys() & runs[base, seeds[0]].accuracies.keys()

    def accuracy(run: StudyRun) -> float:
        return 100 * statistics.fmean(run.accuracies[domain] for domain in common)

    found, compared = ([runs[key, seed] for seed in seeds] for key in (name, base))
    gain: Difference = paired(runs, name, base, accuracy)
    cells = [
        f"{title} {_mean(found, key)} against {_mean(compared, key)}"
        for title, key in (("together", "union"), ("MACs", "macs_ratio"), ("Params", "params_ratio"))
    ]
    return f"`{name}` against `{base}`: {gain.written()} points in {len(common)} domains; {', '.join(cells)}"


def _mean(runs: Sequence[StudyRun], key: str) -> str:
    return f"{statistics.fmean(getattr(run, key) for run in runs):.3f}"
