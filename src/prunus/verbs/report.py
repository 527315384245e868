"""Write one page, and if wanted figures, about runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prunus.errors import DataError, MissingExtraError, PrunusError
from prunus.files import write_atomically
from prunus.measure.sharing import sharing_matrix
from prunus.report.page.figure_files import write_figures
from prunus.report.page.reading import find_runs, read_run, run_names
from prunus.report.page.render import render_page
from prunus.report.page.run import Inside, LayerUsage, ReportedRun, Results
from prunus.report.targets import check_file, check_folder
from prunus.verbs.inspect import inspect

MODEL = "model.prunus"
SLACK = 0.005  # by how much the usage of a model file may differ from the results before it is of another training
REMAKE = f"Make the model file again, in the run's folder: prunus prune . --out {MODEL}"
INSTALL = "To look into the run itself: pip install 'prunus[train]'"
RESTORE = "Put the run's files back, or train it again."
FAULTS = (PrunusError, ModuleNotFoundError, OSError)  # of a file, of a run, of a machine without torch
PLACE = re.compile(
    r"(?<![^\s'\"(])(?:[A-Za-z]:)?[\\/](?:[^\s'\":;,]*[\\/])?"
)  # a path from the root, but for its last part


@dataclass(frozen=True)
class Report:
    """What was written.

    Args:
        runs: their names on the page.
        left_out: what is not on the page -> why.
    """

    page: Path
    runs: tuple[str, ...]
    left_out: dict[str, str]
    figures: tuple[Path, ...]


def write_report(
    runs: str | Path | Sequence[str | Path], out: str | Path = "report.html", figures: str | Path | None = None
) -> Report:
    """Write a page about run folders, or folders of them, that needs nothing but a browser.

    Args:
        figures: a folder for the page's figures as SVG and PNG files.
    """
    check_file(Path(out), "report.html")
    if figures is not None:
        check_folder(Path(figures))
    given = [runs] if isinstance(runs, (str, Path)) else runs
    paths, left_out = find_runs([Path(each) for each in given])
    found: dict[str, ReportedRun] = {}
    for path, name in zip(paths, run_names(paths), strict=True):
        try:
            found |= {run.name: run for run in _read(path, name)}
        except DataError as error:
            left_out[str(path)] = str(error)
    if not found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise DataError(f"there is no run to report on: {reasons or 'none was named'}")
    write_atomically(Path(out), render_page(list(found.values()), left_out).encode())
    drawn = write_figures(Path(figures), list(found.values())) if figures is not None else []
    return Report(Path(out), tuple(found), left_out, tuple(drawn))


def _read(path: Path, name: str) -> Iterator[ReportedRun]:
    """Read a run and the baselines that were measured with it."""
    run = read_run(path, name)
    inside, notes = _look_inside(path.resolve(), run.results)
    yield replace(run, inside=inside, notes=(*run.notes, *notes))
    for key, results in run.results.baselines.items():
        yield read_run(path / key, f"{name}/{key}", results)


def _look_inside(path: Path, results: Results) -> tuple[Inside, tuple[str, ...]]:
    """Look into the model file beside a run, else into the run itself, which takes torch; say in a note what failed."""
    fault = ""
    if (path / MODEL).exists():
        try:
            return _look_into_file(path / MODEL, results), ()
        except FAULTS as error:
            fault = _without_places(error, path)
    try:
        inside = _look_into_run(path) if results.largest_usage < 1 else Inside()
    except FAULTS as error:
        reasons = " and ".join(filter(None, (fault, _without_places(error, path))))
        mend = INSTALL if isinstance(error, (ModuleNotFoundError, MissingExtraError)) else RESTORE
        return Inside(), (f"Usage by layer is left out: {reasons}. {mend}",)
    return inside, (f"{fault}. Shown are the layers of the run. {REMAKE}",) if fault else ()


def _without_places(error: Exception, path: Path) -> str:
    """Say what is wrong without advice, and of paths only the last part: a page travels."""
    text = f"{error.name} is not installed" if isinstance(error, ModuleNotFoundError) else str(error)
    what = text.replace(f"{path}{os.sep}", "").replace(str(path), path.name).partition("; ")[0]
    return PLACE.sub("", what)


def _look_into_file(file: Path, results: Results) -> Inside:
    found = inspect(file)
    layers = tuple(
        LayerUsage(each.name, each.num_kernels, each.usage, each.kept / each.num_kernels) for each in found.layers
    )
    total = sum(layer.num_kernels for layer in layers)
    for name, domain in results.domains.items():
        usage = sum(layer.usage.get(name, 0) * layer.num_kernels for layer in layers) / total
        if name not in found.domains or abs(usage - domain.usage) > SLACK:
            raise DataError(f"{MODEL} is not of the training that was measured")
    versions: dict[str, str] = {
        key: str(found.provenance[key]) for key in ("prunus", "torch") if key in found.provenance
    }
    return Inside(layers, found.sharing, found.bytes_by_part, versions)


def _look_into_run(path: Path) -> Inside:
    from prunus.training.run import open_run  # noqa: PLC0415  # torch, and only where a model file is missing
    from prunus.verbs.evaluate import open_subject  # noqa: PLC0415

    costs = open_subject(path, "cpu").costs
    layers = tuple(
        LayerUsage(
            layer.name,
            layer.num_kernels,
            {name: used / layer.num_kernels for name, used in zip(costs.domains, layer.used, strict=True)},
            layer.union / layer.num_kernels,
        )
        for layer in costs.layers
    )
    switches = open_run(path, "cpu").net.switches
    if switches is None:
        return Inside(layers)
    overlap_DD = sharing_matrix(switches.kernel_masks().numpy()).tolist()
    sharing = {
        name: dict(zip(costs.domains, row, strict=True)) for name, row in zip(costs.domains, overlap_DD, strict=True)
    }
    return Inside(layers, sharing)
