"""`prunus prune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

if TYPE_CHECKING:
    from prunus.bundle.dtypes import DType


def command(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")] = Path("model.prunus"),
    dtype: Annotated[str, typer.Option(help="Type of the stored weights: float32, float16 or bfloat16.")] = "float32",
) -> None:
    """Remove every kernel that no domain uses and write one model file.

    Example: prunus prune runs/a --out model.prunus
    """
    from prunus.bundle.file import read_bundle
    from prunus.measure.bundle_cost import bundle_costs
    from prunus.report.tables import megabytes, percent
    from prunus.verbs.prune import prune

    path = prune(run, out, cast("DType", dtype))  # any other is refused
    bundle = read_bundle(path)
    typer.echo(
        f"{path}: {megabytes(path.stat().st_size)} for {len(bundle.domains)} domains ({', '.join(bundle.domains)}), "
        f"{percent(bundle_costs(bundle).union())} of the kernels kept; the dense backbone alone has "
        f"{megabytes(bundle.manifest.dense_bytes)}"
    )
