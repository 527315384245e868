"""Measure a run or a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prunus.config import Crops
from prunus.data.domains import SPLITS
from prunus.errors import check_known
from prunus.evaluation.classifying import classify_measurable
from prunus.evaluation.results import evaluation_of
from prunus.evaluation.subject import Subject, open_subject
from prunus.evaluation.watching import watched_by
from prunus.measure.evaluation import Evaluation
from prunus.verbs.arguments import Domains, ModelLike, Own, check_run_or_file, model_path

if TYPE_CHECKING:
    from torch import nn

__all__ = ["evaluate", "watched_by"]


def evaluate(  # noqa: PLR0913  # what to measure, how, and what comes from Python
    target: ModelLike,
    split: str = "test",
    data: str | Path | None = None,
    crops: Crops | None = None,
    device: str = "auto",
    use_cache: bool = True,
    *,
    backbone: nn.Module | None = None,
    domains: Domains | None = None,
) -> Evaluation:
    """Measure a run folder or a model file on a split of its domains: accuracy, usage, costs and scores.

    The results of a run are also written to results.json in its folder, where a report finds them.

    Args:
        data: the folder of the domains, or of the benchmark, if it is not where the recipe says.
        crops: how many crops of an image to average (default: the recipe's).
        backbone: your own network, with which a run was trained.
        domains: the images of domains that were passed from Python in training.
    """
    check_known("split", split, SPLITS)

    def measured(subject: Subject) -> Evaluation:
        return evaluation_of(subject, split, classify_measurable(subject, split, data, crops, use_cache))

    path = model_path(target)
    check_run_or_file(path)
    with Own(backbone, domains).passed_to(path):
        if path.is_dir():
            from prunus.evaluation.saved import measure_run  # noqa: PLC0415  # model files need no torch

            return measure_run(path, device, measured)
        return measured(open_subject(path, device))
