"""Read what a run's network holds, from its model file or else from the run itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from prunus.errors import DataError, MissingExtraError, PrunusError
from prunus.measure.evaluation import Evaluation
from prunus.report.page.run import Contents

MODEL = "model.prunus"
SLACK = 0.005  # largest difference between the usage of a model file and of the results if both are of one run
REMAKE = f"Make the model file again, in the run's folder: prunus prune . --out {MODEL}"
INSTALL = "To read the run itself: pip install 'prunus[train]'"
RESTORE = "Restore the run's files, or train it again."
READ_ERRORS = (PrunusError, ModuleNotFoundError, OSError)  # bad file, bad run, no torch
PARENT_FOLDERS = re.compile(r"(?<![^\s'\"(])(?:[A-Za-z]:)?[\\/](?:[^\s'\":;,]*[\\/])?")  # of an absolute path


class ContentReaders(NamedTuple):
    """How to read a model file, and how to read a run folder, which takes torch."""

    of_file: Callable[[Path], Contents]
    of_run: Callable[[Path], Contents]


def read_contents(folder: Path, results: Evaluation, readers: ContentReaders) -> tuple[Contents, tuple[str, ...]]:
    """Read the model file of a run, else the run itself; what fails becomes a note."""
    file_error = ""
    if (folder / MODEL).exists():
        try:
            return _checked(readers.of_file(folder / MODEL), results), ()
        except READ_ERRORS as error:
            file_error = _without_folders(error, folder)
    try:
        contents = readers.of_run(folder) if results.largest_usage < 1 else Contents()
    except READ_ERRORS as error:
        reasons = " and ".join(filter(None, (file_error, _without_folders(error, folder))))
        remedy = INSTALL if isinstance(error, (ModuleNotFoundError, MissingExtraError)) else RESTORE
        return Contents(), (f"Usage by layer is omitted: {reasons}. {remedy}",)
    return contents, (f"{file_error}. The layers shown are those of the run. {REMAKE}",) if file_error else ()


def _checked(contents: Contents, results: Evaluation) -> Contents:
    """Refuse a model file that was not made of the run that was measured."""
    total = sum(layer.num_kernels for layer in contents.layers)
    for name, domain in results.domains.items():
        used = sum(layer.usage.get(name, 0) * layer.num_kernels for layer in contents.layers)
        if name not in contents.layers[0].usage or abs(used / total - domain.usage) > SLACK:
            raise DataError(f"{MODEL} does not belong to the measured run")
    return contents


def _without_folders(error: Exception, folder: Path) -> str:
    """Say what went wrong without advice, and keep only the last part of paths: pages are shared."""
    text = f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
    problem = text.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name).partition("; ")[0]
    return PARENT_FOLDERS.sub("", problem)
