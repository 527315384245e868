"""What a study measures of a run: one JSON file per run, under docs/results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from prunus.files import write_atomically
from prunus.measure.result import Amount, Result, Share


class StudyRun(Result):
    """One trained and measured run.

    Args:
        name: of its row in the grid.
        split: what was measured on.
        recipe: as it was trained, without the folders of its domains.
        seconds: training time; `measuring_seconds` come on top.
        train_images: domain -> images that it was trained on.
        images: domain -> images that it was measured on.
        union: share of the kernels that any domain uses; `sparsity` is the mean over layers of the others.
        usage: domain -> share of the kernels that it uses; `domain_macs_ratio` likewise of the MACs.
        params_ratio_with_source: with the unpruned backbone beside it, if the source is not one of the domains.
    """

    name: str
    seed: int
    split: str
    method: str
    budget: float | None
    recipe: dict[str, JsonValue]
    versions: dict[str, str]
    machine: str
    seconds: Amount
    measuring_seconds: Amount
    train_images: dict[str, int]
    images: dict[str, int]
    accuracies: dict[str, Share]
    mean_accuracy: Share
    union: Share
    intersection: Share
    sparsity: Share
    usage: dict[str, Share]
    domain_macs_ratio: dict[str, Share]
    macs_ratio: Share
    params_ratio: Share
    params_ratio_with_source: Share
    stored_bytes: int
    model_bytes: int | None
    dense_bytes: int
    budget_kept: bool | None

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return file_of(self.name, self.seed)


Runs = Mapping[tuple[str, int], StudyRun]  # name, seed -> what was measured


def file_of(name: str, seed: int) -> str:
    """Return the name of the file of a row and seed."""
    return f"{name}-seed{seed}.json"


def write_run(folder: Path, run: StudyRun) -> None:
    """Write a finished run."""
    write_atomically(folder / run.file, (run.model_dump_json(indent=1) + "\n").encode())


def read_runs(folder: Path) -> dict[tuple[str, int], StudyRun]:
    """Read all finished runs."""
    runs = [StudyRun.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    return {(run.name, run.seed): run for run in runs}
