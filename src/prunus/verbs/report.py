"""Write one page, and its figures as files if wanted, about runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prunus.measure.sharing import sharing_matrix
from prunus.report.page.contents import ContentReaders
from prunus.report.page.run import Contents, LayerUsage
from prunus.report.page.writing import Report, write_page
from prunus.verbs.inspect import inspect


def write_report(
    runs: str | Path | Sequence[str | Path], out: str | Path = "report.html", figures: str | Path | None = None
) -> Report:
    """Write a page about run folders, or folders of them, that needs nothing but a browser.

    Args:
        figures: a folder for the page's figures as SVG and PNG files.
    """
    paths = [runs] if isinstance(runs, (str, Path)) else runs
    return write_page([Path(path) for path in paths], Path(out), None if figures is None else Path(figures), READERS)


def file_contents(file: Path) -> Contents:
    """Read a model file."""
    inspected = inspect(file)
    layers = tuple(
        LayerUsage(layer.name, layer.num_kernels, layer.usage, layer.kept / layer.num_kernels)
        for layer in inspected.layers
    )
    origin = inspected.provenance
    versions: dict[str, str] = {key: str(origin[key]) for key in ("prunus", "torch") if key in origin}
    return Contents(layers, inspected.sharing, inspected.bytes_by_part, versions)


def run_contents(folder: Path) -> Contents:
    """Open a run, which takes torch."""
    from prunus.evaluation.subject import open_subject  # noqa: PLC0415
    from prunus.training.run import open_run  # noqa: PLC0415  # torch, and only without a model file

    costs = open_subject(folder, "cpu").costs
    layers = tuple(
        LayerUsage(
            layer.name,
            layer.num_kernels,
            costs.layer_usage(layer),
            layer.union / layer.num_kernels,
        )
        for layer in costs.layers
    )
    switches = open_run(folder, "cpu").net.switches
    if switches is None:
        return Contents(layers)
    overlap_DD = sharing_matrix(switches.kernel_masks().numpy()).tolist()
    rows = [dict(zip(costs.domains, row, strict=True)) for row in overlap_DD]
    return Contents(layers, dict(zip(costs.domains, rows, strict=True)))


READERS = ContentReaders(file_contents, run_contents)
