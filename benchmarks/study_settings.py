"""The table of the settings in which the paper, the large study and a small one differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.studies import NINE, Study, planned

# title -> (the paper's, a study's)
SETTINGS: Mapping[str, tuple[str, Callable[[Study], float | str]]] = {
    "epochs": ("60", lambda study: study.epochs),
    "batch size": ("32", lambda study: study.paper["batch_size"]),
    "rate of norms and classifiers": ("0.001", lambda study: study.paper["lr"]),
    "rate of switches": ("0.0001", lambda study: study.paper["switch_lr"]),
    "rate at which the weights of losses are learned": ("not given", lambda study: study.paper["dual_rate"]),
    # the large study leaves the choice to a GPU
    "precision": ("not given", lambda study: study.paper.get("precision", "bfloat16")),
    "batch size of `exact`": ("", lambda study: study.ours["batch_size"]),
    "rate of norms and classifiers in `exact`": ("", lambda study: study.ours["lr"]),
    "rate of weights in `exact`": ("", lambda study: study.ours["weight_lr"]),
    "rate of switches in `exact`": ("", lambda study: study.ours["switch_lr"]),
    "small domains of claim 6": ("4", lambda study: study.small),
    "runs": ("", lambda study: len(list(planned(study)))),
}


def settings(study: Study) -> str:
    """Return the table of settings."""
    lines = [
        f"| {title} | {paper} | {_written(value(NINE))} | {_written(value(study))} |"
        for title, (paper, value) in SETTINGS.items()
    ]
    head = ["| | paper | [large study](study.md) | here |", "|---|---:|---:|---:|"]
    return "\n".join([*head, *lines]) + "\n"


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"
