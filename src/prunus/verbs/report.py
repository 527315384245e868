"""Write one page about runs, and its figures as files."""

from collections.abc import Sequence
from pathlib import Path

from prunus.files import as_path
from prunus.measure.inspection import bundle_sharing
from prunus.report.page.run import Contents
from prunus.report.page.writing import Report, write_page


def write_report(
    runs: str | Path | Sequence[str | Path], out: str | Path = "report.html", figures: str | Path | None = None
) -> Report:
    """Write a self-contained HTML page about run folders, or folders that contain runs.

    Args:
        figures: a folder for the page's figures as SVG and PNG files.
    """
    paths = [runs] if isinstance(runs, (str, Path)) else runs
    folder = None if figures is None else Path(figures)
    return write_page([as_path(path, "a run") for path in paths], Path(out), folder, run_contents)


def run_contents(folder: Path) -> Contents:
    """Read what a run's network contains, counted as in its model file; this needs torch."""
    from prunus.evaluation.subject import open_subject  # noqa: PLC0415  # a page about model files needs no torch

    subject = open_subject(folder, "cpu")
    return Contents(subject.costs, bundle_sharing(subject.bundle) if subject.bundle else {})
