"""Write the report page, and its figures as files, about the runs in some folders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from prunus.errors import DataError
from prunus.files import write_atomically
from prunus.report.page.contents import OpenRun, read_contents
from prunus.report.page.figure_files import write_figures
from prunus.report.page.reading import find_runs, read_run, run_names
from prunus.report.page.render import render_page
from prunus.report.page.run import ReportedRun
from prunus.report.targets import check_file, check_folder


@dataclass(frozen=True)
class Report:
    """The files that were written.

    Args:
        runs: names of the runs on the page.
        left_out: what is not on the page -> why.
    """

    page: Path
    runs: tuple[str, ...]
    left_out: dict[str, str]
    figures: tuple[Path, ...]


def write_page(paths: Sequence[Path], page: Path, figures: Path | None, open_run: OpenRun) -> Report:
    """Write the page and, if a folder is named, its figures.

    Args:
        open_run: reads what a run contains if it has no usable model file.
    """
    check_file(page, "report.html")
    if figures is not None:
        check_folder(figures)
    folders, left_out = find_runs(paths)
    runs: dict[str, ReportedRun] = {}
    for folder, name in zip(folders, run_names(folders), strict=True):
        try:
            runs |= {run.name: run for run in read_run_and_baselines(folder, name, open_run)}
        except DataError as error:
            left_out[str(folder)] = str(error)
    if not runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise DataError(f"no run to report on: {reasons or 'none was named'}")
    write_atomically(page, render_page(list(runs.values()), left_out).encode())
    files = write_figures(figures, list(runs.values())) if figures is not None else []
    return Report(page, tuple(runs), left_out, tuple(files))


def read_run_and_baselines(folder: Path, name: str, open_run: OpenRun) -> Iterator[ReportedRun]:
    """Read a run and the baselines that were measured with it."""
    run = read_run(folder, name)
    contents, notes = read_contents(folder.resolve(), run.results, open_run)
    yield replace(run, contents=contents, notes=(*run.notes, *notes))
    for key, results in run.results.baselines.items():
        yield read_run(folder / key, f"{name}/{key}", results)
