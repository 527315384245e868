"""`prunus tables`."""

from __future__ import annotations

import typer
from rich.console import Console

from prunus.cli.options import AsJson
from prunus.cli.output import make_table, print_json

COLUMNS = ("method", "S", "±", "S_O", "± %", "S_P", "± %", "S_E", "± %")


def command(as_json: AsJson = False) -> None:
    """Recompute the paper's two result tables from its accuracies and list its mistakes.

    Example: prunus tables
    """
    from prunus.benchmarks import BENCHMARKS
    from prunus.measure.paper_tables import SLIPS
    from prunus.verbs.tables import tables

    rows = tables()
    if as_json:
        print_json({"rows": rows, "slips": SLIPS})
        return
    for name, benchmark in BENCHMARKS.items():
        table = make_table(COLUMNS, f"{benchmark.title}: as printed, and the difference when recomputed")
        for row in rows:
            if row.benchmark != name:
                continue
            printed = row.printed
            computed = row.computed
            cells = [
                f"{printed.s:.0f}{'*' if row.corrected.s != printed.s else ''}",
                f"{computed.s - row.corrected.s:+.1f}",
            ]
            for old, new in ((printed.s_o, computed.s_o), (printed.s_p, computed.s_p), (printed.s_e, computed.s_e)):
                cells += [f"{old:g}", "-" if new is None else f"{100 * (new / old - 1):+.2f}"]
            table.add_row(printed.method, *cells)
        Console().print(table)
    typer.echo("S is recomputed from the accuracies; S_O, S_P and S_E from the printed S. * compared with 280.")
    typer.echo("Mistakes in the paper:")
    for slip in SLIPS:
        typer.echo(f"- {slip.benchmark}, {slip.where}: printed {slip.printed}, should be {slip.corrected}: {slip.why}")
