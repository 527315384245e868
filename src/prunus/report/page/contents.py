"""Read what a run's network contains, from its model file or else from the run itself."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from prunus.bundle.file import read_bundle
from prunus.errors import DataError, MissingExtraError, PrunusError, install_command
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.evaluation import Evaluation
from prunus.measure.inspection import bundle_sharing, bytes_by_part
from prunus.report.page.run import Contents
from prunus.run_folder import RunFolder

OpenRun = Callable[[Path], Contents]  # needs torch, so it comes from outside this room

SLACK = 0.005  # largest difference in usage between a model file and the results of the same run
REMAKE = "Make the model file again, in the run's folder: prunus prune . --out model.prunus"
INSTALL = f"To read the run itself: {install_command('train')}"
RESTORE = "Restore the run's files, or train it again."
READ_ERRORS = (PrunusError, ModuleNotFoundError, OSError)  # bad file, bad run, no torch
PARENT_FOLDERS = re.compile(r"(?<![^\s'\"(])(?:[A-Za-z]:)?[\\/](?:[^\s'\":;,]*[\\/])?")  # of an absolute path


def read_contents(folder: Path, results: Evaluation, open_run: OpenRun) -> tuple[Contents, tuple[str, ...]]:
    """Read the model file of a run, else the run itself; what fails becomes a note."""
    model = RunFolder(folder).model
    file_error = ""
    if model.exists():
        try:
            return file_contents(model, results), ()
        except READ_ERRORS as error:
            file_error = _without_folders(error, folder)
    try:
        contents = open_run(folder) if results.largest_usage < 1 else Contents()
    except READ_ERRORS as error:
        reasons = " and ".join(filter(None, (file_error, _without_folders(error, folder))))
        remedy = INSTALL if isinstance(error, (ModuleNotFoundError, MissingExtraError)) else RESTORE
        return Contents(), (f"Usage by layer is omitted: {reasons}. {remedy}",)
    return contents, (f"{file_error}. The layers shown are those of the run. {REMAKE}",) if file_error else ()


def file_contents(file: Path, results: Evaluation) -> Contents:
    """Read a model file; refuse one that was not made from the measured run."""
    bundle = read_bundle(file)
    costs = bundle_costs(bundle)
    for name, domain in results.domains.items():
        if name not in costs.domains or abs(costs.usage(name) - domain.usage) > SLACK:
            raise DataError(f"{file.name} does not belong to the measured run")
    origin = bundle.manifest.provenance
    versions: dict[str, str] = {key: str(origin[key]) for key in ("prunus", "torch") if key in origin}
    return Contents(costs, bundle_sharing(bundle), bytes_by_part(file), versions)


def _without_folders(error: Exception, folder: Path) -> str:
    """Return what went wrong, without advice and with only the last part of paths, because pages are shared."""
    text = f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
    problem = text.replace(f"{folder}{os.sep}", "").replace(str(folder), folder.name).partition("; ")[0]
    return PARENT_FOLDERS.sub("", problem)
