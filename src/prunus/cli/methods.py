"""`prunus methods`."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from prunus.cli.options import AsJson, print_json


def command(as_json: AsJson = False) -> None:
    """List the methods: what each does, its paper, its options and what it costs."""
    from prunus.verbs.methods import EXAMPLE, NUM_DOMAINS, methods

    rows = methods()
    if as_json:
        print_json([asdict(row) for row in rows])
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
    budgeted = ", ".join(row.name for row in rows if row.has_budget)
    masked = ", ".join(row.name for row in rows if row.masked and not row.has_budget)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"Params: weights and switches of {EXAMPLE} for its source domain, unadapted, and {NUM_DOMAINS} more, "
        "relative to the network alone, before anything is pruned or chosen. MACs: relative to the network.\n"
    )
    console.print("Options, under [method] in a recipe, with their defaults:", markup=False)
    for row in rows:
        for key, option in row.options.items():
            console.print(f"  {row.name}: {key} = {option.default}  [dim]{option.description}[/]")
    console.print(
        f"\nA budget limits {budgeted}.\nThese and {masked} have masks, "
        'which [sharing] loss = "soft_overlap" pushes apart.',
        markup=False,
    )
