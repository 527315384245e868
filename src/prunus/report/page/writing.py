"""Write the report page, and its figures as files, about the runs in some folders."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
class Completed:
    """What was measured because the folder of a run lacked it.

    Args:
        files: names of the files that were written into the folder.
        notes: what could not be measured.
    """

    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


CompleteRun = Callable[[Path], Completed]  # needs torch, so it comes from outside this room


@dataclass(frozen=True)
class Report:
    """The files that were written.

    Args:
        runs: names of the runs on the page.
        left_out: what is not on the page -> why.
        measured: folder of a run -> files that were written into it, because they were missing or out of date.
    """

    page: Path
    runs: tuple[str, ...]
    left_out: dict[str, str]
    figures: tuple[Path, ...]
    measured: dict[str, tuple[str, ...]] = field(default_factory=dict)


def write_page(
    paths: Sequence[Path],
    page: Path,
    figures: Path | None,
    open_run: OpenRun,
    complete: CompleteRun | None = None,
) -> Report:
    """Write the page and, if a folder is named, its figures.

    Args:
        open_run: reads what a run contains if it has no usable model file.
        complete: measures what the folder of a run lacks.
    """
    check_file(page, "report.html")
    if figures is not None:
        check_folder(figures)
    folders, left_out = find_runs(paths)
    runs: dict[str, ReportedRun] = {}
    measured: dict[str, tuple[str, ...]] = {}
    for folder, name in zip(folders, run_names(folders), strict=True):
        try:
            completed = complete(folder) if complete else Completed()
            read = read_run_and_baselines(folder, name, open_run, completed.notes)
            runs |= {run.name: run for run in _without_known_baselines(read, name, runs.values())}
        except DataError as error:
            left_out[str(folder)] = str(error)
            continue
        if completed.files:
            measured[str(folder)] = completed.files
    if not runs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise DataError(f"no run to report on: {reasons or 'none was named'}")
    write_atomically(page, render_page(list(runs.values()), left_out).encode())
    files = write_figures(figures, list(runs.values())) if figures is not None else []
    return Report(page, tuple(runs), left_out, tuple(files), measured)


def read_run_and_baselines(
    folder: Path, name: str, open_run: OpenRun, more_notes: Sequence[str] = ()
) -> Iterator[ReportedRun]:
    """Read a run and the baselines that were measured with it."""
    run = read_run(folder, name)
    contents, notes = read_contents(folder.resolve(), run.results, open_run)
    yield replace(run, contents=contents, notes=(*run.notes, *notes, *more_notes))
    for key, results in run.results.baselines.items():
        yield read_run(folder / key, f"{name}/{key}", results)


def _without_known_baselines(
    read: Iterable[ReportedRun], name: str, known: Iterable[ReportedRun]
) -> Iterator[ReportedRun]:
    """Omit a baseline of a run that the page shows already, because runs on the same domains share it."""
    shown = {_kind(run) for run in known}
    for run in read:
        if run.name == name or _kind(run) not in shown:
            yield run


def _kind(run: ReportedRun) -> tuple[str, str, str, tuple[str, ...]]:
    results = run.results
    return results.method, results.backbone, results.split, tuple(sorted(results.domains))
