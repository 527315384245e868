"""`prunus prune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console

if TYPE_CHECKING:
    from prunus.bundle.dtypes import DType


def command(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.prunus"),
    dtype: Annotated[str, typer.Option(help="How weights are stored: float32, float16 or bfloat16.")] = "float32",
) -> None:
    """Drop every kernel that no domain uses and write one model file."""
    from prunus.bundle.file import read_bundle
    from prunus.measure.bundle_cost import bundle_costs
    from prunus.report.tables import megabytes, percent
    from prunus.verbs.prune import prune

    path = prune(run, out, cast("DType", dtype))  # an unknown one is refused by name
    bundle = read_bundle(path)
    dense = megabytes(bundle.manifest.dense_bytes)
    Console().print(
        f"{path}: {megabytes(path.stat().st_size)} for {len(bundle.domains)} domains ({', '.join(bundle.domains)}); "
        f"{percent(bundle_costs(bundle).union())} of the kernels kept; the dense backbone alone is {dense}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
