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
    for name in ("method", "what it does", "paper", "a domain adds", "10 domains", "MACs"):
        table.add_column(name, justify="right" if name in ("10 domains", "MACs") else "left")
    for row in rows:
        table.add_row(
            row.name, row.summary, row.paper, row.cost, f"{row.params_ratio:.2f} x", f"{row.macs_ratio:.2f} x"
        )
    console = Console()
    console.print(table)
    console.print(
        f"10 domains: convolution weights and switches of {EXAMPLE} for its source domain, unadapted, and {NUM_DOMAINS} "
        "more, relative to the network alone, before anything is pruned or chosen. MACs: relative to the network.",
        highlight=False,
    )
    with_options = {row.name: row.options for row in rows if row.options}
    console.print("Options, under [method] in a recipe, with their defaults:", highlight=False)
    for name, options in with_options.items():
        console.print(f"  {name}: " + ", ".join(f"{key} = {value}" for key, value in options.items()), highlight=False)
    console.print(
        'Methods with a budget take `budget`; methods with masks take [sharing] loss = "soft_overlap" too.',
        highlight=False,
        markup=False,
    )
