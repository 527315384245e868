"""Commands to start with: `demo`, `init`, `check` and `zoo`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.text import Text

import prunus
from prunus.amounts import plural
from prunus.cli.options import AsJson, Device, Overrides
from prunus.cli.output import make_table, print_json, say, show, tell, waiting
from prunus.errors import install_command
from prunus.measure.score import FEATURE
from prunus.names import shown
from prunus.progress.training import TrainingProgress
from prunus.report.tables import file_size, percent, results_view
from prunus.run_folder import RunFolder
from prunus.terminal import plain_console, plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prunus.data.checks import CheckReport, Finding
    from prunus.measure.evaluation import Demonstration, Example, StoredResult
    from prunus.terminal import PlainTable

SHOWN = 50  # lines of errors, and of warnings
WIDE = 1000  # columns, more than any table needs
SHORT = 16  # characters of a name that a table has room for in a narrow terminal
NARROW = 80  # columns, fewer than a table of short names needs
UNBROKEN = "\N{NO-BREAK SPACE}"
SPLITS = ("train", "validation", "test")
ZOO_COLUMNS = ("backbone", "input", "kernel weights", "kernels", "MACs", "top-1", "weights")


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("runs/demo"),
    overrides: Overrides = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Train, prune, measure and use one model for five bundled domains.

    Example: prunus demo --out runs/demo
    """
    console = plain_console(stderr=as_json)
    results = prunus.demo(out, overrides or (), lambda title: [TrainingProgress(title, console)], device)
    if as_json:
        print_json(results)
        return
    files = RunFolder(out)
    names = ", ".join(path.name for path in (files.results, files.bench, files.model, files.plots))
    report = results.report or f"none yet; {install_command('report')}, then: prunus report {out}"
    console.print("", results_view(results, results.baselines[FEATURE]), sep="\n")
    if results.stored:
        commands = plain_text(*_commands(results.stored))
        console.print("", _beside_others(results), commands, sep="\n", soft_wrap=True)
    console.print("", _summary(results), "", sep="\n")
    say(
        _example(results.example),
        "",
        f"Written to {out}: {names}",
        f"Report: {report}",
        f"Next: prunus predict {files.model} IMAGE --domain {results.example.domain}",
    )


def _beside_others(results: Demonstration) -> PlainTable:
    """Show the model, the baseline that was trained with it, and what was measured earlier."""
    rows = {"this model": results, "frozen features": results.baselines[FEATURE]}
    rows |= {f"{stored.title} *": stored.results for stored in results.stored}
    table = make_table(("", "mean accuracy", "kernels of all domains", "computation", "to store"))
    for title, row in rows.items():
        kernels = percent(row.union) + (" (over budget)" if row.over_budget else "")
        size = file_size(row.model_bytes or row.stored_bytes)
        table.add_row(title, percent(row.mean_accuracy), kernels, percent(row.macs_ratio), size)
    return table


def _commands(stored: Sequence[StoredResult]) -> list[str]:
    return [f"* {result.title}: stored result of: {' && '.join(result.commands)}" for result in stored]


def _summary(results: Demonstration) -> Text:
    gain = 100 * (results.mean_accuracy - results.baselines[FEATURE].mean_accuracy)
    return Text.from_markup(  # numbers only
        f"One file of {file_size(results.model_bytes)} serves all {len(results.domains)} domains with "
        f"[bold]{percent(results.params_ratio, 0)}[/] of the backbone's parameters and "
        f"[bold]{percent(results.macs_ratio, 0)}[/] of its computation per image. It is "
        f"[bold]{abs(gain):.1f} points[/] {'more' if gain >= 0 else 'less'} accurate than the backbone's frozen "
        "features."
    )


def _example(example: Example) -> str:
    best = example.predictions[0]
    verdict = "correct" if best.label == example.truth else f"wrong: it is {example.truth!r}"
    answer = f"class {best.label!r} with {percent(best.probability)}"
    return f"A test image of domain {example.domain!r}, {example.file}: {answer} ({verdict})."


def init(
    data: Annotated[list[str], typer.Argument(help="Domains (folders or zip files), or a folder of domains.")],
    out: Annotated[Path, typer.Option(help="Recipe to write.")] = Path("recipe.toml"),
    backbone: Annotated[
        str | None, typer.Option(help="Network to use.", show_default="by the size of the images")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing recipe.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at folders of images and write a commented recipe for them.

    Example: prunus init data --out recipe.toml
    """
    with waiting("looking at the images"):
        written = prunus.make_recipe(data, out, force, backbone)
    rows = (
        (found.name, str(found.classes), str(sum(found.images.values())), *_as_trained(found.images, written.splits))
        for found in written.domains
    )
    layouts = [f"{found.name}: {found.layout}" for found in written.domains]
    left_out = [f"Left out: {reason}" for reason in written.left_out]
    splits = "train and validation" if written.splits == "train+validation" else "train"
    missing = [f"Before training: {written.missing}"] if written.missing else []
    show(
        written,
        as_json,
        make_table(("domain", "classes", "images", *SPLITS), rows=rows),
        *layouts,
        *left_out,
        f"Written to {written.path}: backbone {written.backbone} ({written.why}); it trains on {splits} images.",
        *missing,
    )
    if not as_json:
        say("", "Next:", *(f"  {command}" for command in written.next_commands))


def _as_trained(images: Mapping[str, int], splits: str) -> tuple[str, ...]:
    """Return the numbers of images to train on, to watch the training with and to test on."""
    if splits == "train":
        return tuple(str(images[split]) for split in SPLITS)
    return str(images["train"] + images["validation"]), "-", str(images["test"])


def check(
    data: Annotated[str, typer.Argument(help="A domain (a folder or zip file), a folder of domains, or a recipe.")],
    benchmark: Annotated[
        str | None, typer.Option(help="The benchmark in this folder: decathlon or imagenet_to_sketch.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find problems in image data; exit with 1 if they would stop training.

    Example: prunus check data/flowers
    """
    columns = (SpinnerColumn(), TextColumn("{task.completed} images checked"))
    errors_to = plain_console(stderr=True)
    with Progress(*columns, console=errors_to, transient=True, disable=not errors_to.is_terminal) as progress:
        task = progress.add_task("", total=None)
        report = prunus.check(data, benchmark, lambda: progress.advance(task))
    if as_json:
        print_json(report)
    else:
        _print_findings(data, report)
    raise typer.Exit(1 if report.has_errors else 0)


def _print_findings(data: str, report: CheckReport) -> None:
    """Print the domains, then errors, then warnings by kind."""
    console = plain_console()
    rows = (
        (domain.name, str(domain.classes), *(str(domain.images.get(split, "-")) for split in SPLITS))
        for domain in report.domains
    )
    console.print(make_table(("domain", "classes", *SPLITS), f"domains in {data}", rows=rows))
    tell(*report.notes)
    errors = [finding for finding in report.findings if finding.level == "error"]
    warnings = [finding for finding in report.findings if finding.level == "warning"]
    for level, lines in (("error", [_line(error) for error in errors]), ("warning", _grouped(warnings))):
        colour = "red" if level == "error" else "yellow"
        for line in lines[:SHOWN]:
            console.print(Text.assemble((level, colour), " ", shown(line)), soft_wrap=True)
        if len(lines) > SHOWN:
            say(f"... and {len(lines) - SHOWN} more such lines; list all findings with --json")
    say(f"{plural(len(errors), 'error')}, {plural(len(warnings), 'warning')}")


def _line(finding: Finding) -> str:
    message = finding.message.replace(f"cannot read {finding.file}: ", "cannot read it: ")  # named already
    return ": ".join(filter(None, (finding.domain, finding.file, message)))


def _grouped(findings: Sequence[Finding]) -> list[str]:
    """Write findings of one kind as one line, with their number and an example."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault((finding.domain, finding.group or f"#{number}"), []).append(finding)
    return [
        _line(alike[0]) if len(alike) == 1 else f"{domain}: {len(alike)} x {group}, such as {alike[0].file}"
        for (domain, group), alike in groups.items()
    ]


def zoo(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Backbones, such as timm/resnet50.", show_default="the bundled ones"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List backbones with their input, size and weights.

    Example: prunus zoo timm/resnet50
    """
    backbones = prunus.zoo(names or ())
    rows = [
        (
            row.name,
            f"{row.input_size} px",
            f"{row.kernel_weights / 1e6:.2f} M",
            f"{row.switches / 1e6:.3f} M",
            f"{row.macs / 1e6:.1f} M",
            percent(row.top1),
            row.weights,
        )
        for row in backbones
    ]
    needs = "" if find_spec("timm") else f" (needs: {install_command('train')})"
    hints: tuple[str, ...] = () if names else (f"Most networks of timm work as well: prunus zoo timm/resnet50{needs}",)
    hints += tuple(f"note: {row.name}: {note}" for row in backbones for note in row.notes)
    table = make_table(ZOO_COLUMNS, left=("weights",), rows=rows)
    console = plain_console()
    fits = console.measure(table, options=console.options.update_width(WIDE)).maximum <= console.width
    breaks = not fits and (console.width < NARROW or any(len(row.name) > SHORT for row in backbones))
    show(backbones, as_json, *(_without_table(rows, console.width) if breaks else [table]), *hints)


def _without_table(rows: Sequence[Sequence[str]], width: int) -> Iterator[Text]:
    """Show rows below their names, which a narrow table would break; a number stays with its unit."""
    for name, *facts in rows:
        described = [f"{fact} {column}" for column, fact in zip(ZOO_COLUMNS[1:-1], facts, strict=False) if fact != "-"]
        whole = ", ".join(fact.replace(" ", UNBROKEN) for fact in described)
        lines = wrap(whole, width, initial_indent="  ", subsequent_indent="  ")
        yield plain_text(name, *(line.replace(UNBROKEN, " ") for line in lines), f"  weights: {facts[-1]}")
