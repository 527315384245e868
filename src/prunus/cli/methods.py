"""`prunus methods`."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, Explain
from prunus.cli.output import print_json


def command(explain: Explain = False, as_json: AsJson = False) -> None:
    """List the methods: what each does, its paper, its options and its cost.

    Example: prunus methods --explain
    """
    from prunus.verbs.methods import EXAMPLE, NUM_DOMAINS, methods

    rows = methods()
    if as_json:
        print_json(rows)
        return
    table = Table()
    table.add_column("method", no_wrap=True)
    table.add_column("what it does, and its paper")
    table.add_column("a domain adds")
    table.add_column("Params", justify="right")
    table.add_column("MACs", justify="right")
    for row in rows:
        described = f"{row.summary}\n[dim]{row.paper}[/]"
        table.add_row(row.name, described, row.cost, f"{row.params_ratio:.2f}", f"{row.macs_ratio:.2f}")
    console = Console(highlight=False)
    console.print(table)
    console.print("Options of the table [method] in a recipe, with their defaults:", markup=False)
    for row in rows:
        for key, option in row.options.items():
            console.print(f"  {row.name}: {key} = {option.default}  [dim]{option.description}[/]")
    if explain:
        with_budget = ", ".join(row.name for row in rows if row.has_budget)
        with_masks = ", ".join(row.name for row in rows if row.masked and not row.has_budget)
        typer.echo(
            f"\nParams: weights and switches of {EXAMPLE} for its source domain and {NUM_DOMAINS} more domains, "
            "relative to the network alone, before pruning.\nMACs: relative to the network.\n"
            f"Methods with a budget: {with_budget}.\nMethods with masks but no budget: {with_masks}.\n"
            'All methods with masks accept [sharing] loss = "soft_overlap", which pushes masks apart.'
        )
