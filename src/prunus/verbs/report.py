"""Write one page about runs, and its figures as files."""

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from prunus.bundle.file import bundle_parts, bundle_size, write_bundle
from prunus.errors import BudgetWarning, DataError, PrunusError
from prunus.files import as_path, write_json
from prunus.measure.evaluation import Evaluation
from prunus.measure.inspection import bundle_sharing, titled_parts
from prunus.report.page.reading import read_results
from prunus.report.page.run import Contents
from prunus.report.page.writing import Completed, Report, write_page
from prunus.run_folder import RunFolder
from prunus.verbs.evaluate import evaluate

ROUNDS = 20  # of the benchmark: enough for a median of milliseconds


def write_report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path = "report.html",
    figures: str | Path | None = None,
    measure: bool = True,
) -> Report:
    """Write a self-contained HTML page about run folders, or folders that contain runs.

    Args:
        figures: a folder for the page's figures as SVG and PNG files.
        measure: measure runs whose results are missing or older than their checkpoint, and time those that are named
            themselves. What is measured is written into the run's folder.
    """
    paths = [as_path(path, "a run") for path in ([runs] if isinstance(runs, (str, Path)) else runs)]
    folder = None if figures is None else Path(figures)
    named = {path.resolve() for path in paths}
    complete = partial(complete_run, named=named) if measure else None
    return write_page(paths, Path(out), folder, run_contents, complete)


def run_contents(folder: Path) -> Contents:
    """Read what a run's network contains, counted as in its model file; this needs torch."""
    from prunus.evaluation.subject import open_subject  # noqa: PLC0415  # a page about model files needs no torch

    subject = open_subject(folder, "cpu")
    if subject.bundle is None:
        return Contents(subject.costs)
    dtype = subject.recipe.dtype
    parts = titled_parts(bundle_parts(subject.bundle, dtype), bundle_size(subject.bundle, dtype))
    return Contents(subject.costs, bundle_sharing(subject.bundle), parts)


def complete_run(path: Path, named: set[Path]) -> Completed:
    """Measure what the folder of a run lacks; only runs with a checkpoint can be measured.

    Args:
        named: the runs to time too, by their whole paths.
    """
    folder = RunFolder(path)
    if not folder.checkpoint.exists():
        return Completed()
    try:
        completed = _measured(folder)
        is_timed = path.resolve() in named and _timed(folder)
    except ModuleNotFoundError as error:
        return Completed(notes=(f"Measurements may be missing or out of date, because {error.name} is not installed.",))
    return Completed((*completed.files, folder.bench.name), completed.notes) if is_timed else completed


def _measured(folder: RunFolder) -> Completed:
    saved = _read_saved(folder)
    if saved and not folder.is_outdated(folder.results):
        return Completed()
    try:
        evaluate(folder.path, saved.split if saved else "test")
    except PrunusError as error:
        if saved is None:
            raise DataError(f"it could not be measured: {error}") from None
        return Completed(notes=("The results are older than the run's checkpoint, and could not be measured again.",))
    return Completed((folder.results.name,))


def _read_saved(folder: RunFolder) -> Evaluation | None:
    try:
        return read_results(folder.path)
    except DataError:
        return None


def _timed(folder: RunFolder) -> bool:
    """Time a run's model if it can be packed; return whether a new benchmark was written."""
    if not folder.is_outdated(folder.bench):
        return False
    from prunus.evaluation.subject import open_subject  # noqa: PLC0415  # needs torch
    from prunus.verbs.bench import bench  # noqa: PLC0415  # likewise
    from prunus.verbs.prune import prune  # noqa: PLC0415  # likewise

    subject = open_subject(folder.path, "cpu")
    if subject.bundle is None:
        return False
    with TemporaryDirectory() as temporary:
        model = Path(temporary) / folder.model.name
        if subject.recipe.dtype == "int8":
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", BudgetWarning)
                    prune(folder.path, model)
            except DataError:  # its images are gone
                return False
        else:
            write_bundle(model, subject.bundle, subject.recipe.dtype)
        write_json(folder.bench, bench(model, threads=(1,), rounds=ROUNDS, accuracy=False).model_dump(mode="json"))
    return True
