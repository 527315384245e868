"""The results that a run folder holds: measured, written and read."""

import warnings
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from prunus.config import Recipe
from prunus.errors import StorageError
from prunus.evaluation.results import frozen_baseline
from prunus.evaluation.run_subject import open_with_baseline
from prunus.evaluation.subject import Subject
from prunus.files import write_json
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import FEATURE
from prunus.run_folder import RunFolder


def measure_run(path: Path, device: str, measure: Callable[[Subject], Evaluation]) -> Evaluation:
    """Measure a run and write the results into its folder, beside those of its frozen backbone."""
    subject, frozen = open_with_baseline(path, device)
    results = measure(subject)
    baseline = frozen_baseline(frozen, results) if frozen else None
    saved = results.model_copy(update={"baselines": {FEATURE: baseline}}) if baseline else results
    try:
        save_results(RunFolder(path), saved, subject.recipe)
    except StorageError as error:
        warnings.warn(f"the results were measured but not saved: {error}", stacklevel=2)
    return results


def save_results(folder: RunFolder, results: Evaluation, recipe: Recipe) -> None:
    """Write the results of a run, with its recipe and its training time."""
    epochs = folder.epochs()
    origin = {"seconds": epochs[-1].seconds if epochs else 0.0, "recipe": recipe.model_dump(mode="json")}
    write_json(folder.results, results.model_copy(update=origin).model_dump(mode="json"))


def read_saved(folder: RunFolder) -> Evaluation | None:
    """Read the results of a run; None if there are none that can be read."""
    try:
        return Evaluation.model_validate_json(folder.results.read_bytes())
    except (OSError, ValidationError):
        return None
