"""`prunus check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from prunus.cli.options import AsJson
from prunus.cli.output import make_table, print_json

if TYPE_CHECKING:
    from prunus.data.checks import CheckReport

SHOWN = 50


def command(
    data: Annotated[str, typer.Argument(help="A domain (a folder or zip file), or a folder of domains.")],
    benchmark: Annotated[
        str | None, typer.Option(help="The benchmark in this folder: decathlon or imagenet_to_sketch.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find problems in image data; exit with 1 if they would stop a training run.

    Example: prunus check data/flowers
    """
    from prunus.verbs.check import check

    columns = (SpinnerColumn(), TextColumn("{task.completed} images checked"))
    errors_to = Console(stderr=True)
    with Progress(*columns, console=errors_to, transient=True, disable=not errors_to.is_terminal) as progress:
        task = progress.add_task("", total=None)
        report = check(data, benchmark, lambda: progress.advance(task))
    if as_json:
        print_json(report)
    else:
        _print(data, report, Console())
    raise typer.Exit(1 if report.has_errors else 0)


def _print(data: str, report: CheckReport, console: Console) -> None:
    splits = ("train", "validation", "test")
    table = make_table(("domain", "classes", *splits), f"domains in {data}")
    for domain in report.domains:
        table.add_row(domain.name, str(domain.classes), *(str(domain.images.get(split, "-")) for split in splits))
    console.print(table)
    for finding in report.findings[:SHOWN]:
        colour = "red" if finding.level == "error" else "yellow"
        console.print(f"[{colour}]{finding.level}[/] ", end="")
        typer.echo(": ".join(filter(None, (finding.domain, finding.file, finding.message))))
    if len(report.findings) > SHOWN:
        typer.echo(f"... and {len(report.findings) - SHOWN} more; list them all with --json")
    errors = [finding for finding in report.findings if finding.level == "error"]
    typer.echo(f"{len(errors)} errors, {len(report.findings) - len(errors)} warnings")
