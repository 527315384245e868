"""`prunus tables`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json


def command(as_json: AsJson = False) -> None:
    """Recompute the paper's two result tables from its accuracies and name its slips."""
    from dataclasses import asdict

    from prunus.benchmarks import BENCHMARKS
    from prunus.measure.paper_tables import SLIPS
    from prunus.verbs.tables import tables

    rows = tables()
    if as_json:
        print_json({"rows": [row.model_dump(mode="json") for row in rows], "slips": [asdict(slip) for slip in SLIPS]})
        return
    console = Console()
    for name, benchmark in BENCHMARKS.items():
        table = Table(title=f"{benchmark.title}: printed, and the difference when recomputed", title_justify="left")
        table.add_column("method")
        for column in ("S", "±", "S_O", "± %", "S_P", "± %", "S_E", "± %"):
            table.add_column(column, justify="right", style="dim" if column.startswith("±") else "")
        for row in (each for each in rows if each.benchmark == name):
            printed, found = row.printed, row.computed
            shown = f"{printed.s:.0f}" + ("*" if row.mended.s != printed.s else "")
            cells = [shown, f"{found.s - row.mended.s:+.1f}"]
            for old, new in ((printed.s_o, found.s_o), (printed.s_p, found.s_p), (printed.s_e, found.s_e)):
                cells += [f"{old:g}", "-" if new is None else f"{100 * (new / old - 1):+.2f}"]
            table.add_row(printed.method, *cells)
        console.print(table)
    console.print(
        "S is recomputed from the accuracies, S_O, S_P and S_E from the printed S. * compared with 280. Slips:",
        soft_wrap=True,
    )
    for slip in SLIPS:
        console.print(
            f"- {slip.benchmark}, {slip.where}: printed {slip.printed}, should be {slip.mended}: {slip.why}",
            highlight=False,
            soft_wrap=True,
        )
