"""Commands for research: `methods`, `compare`, `versus`, `sweep`, `submit`, `score` and `tables`."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import prunus
from prunus.benchmarks import BENCHMARKS
from prunus.cli.options import CROPS, AsJson, CropsOption, Device, Explain, NoCache, Overrides
from prunus.cli.output import make_table, print_json, say, show, waiting
from prunus.errors import DataError, RecipeError, TrainingError
from prunus.progress.training import TrainingProgress
from prunus.progress.trials import TrialsProgress
from prunus.report.comparison import SCORES, comparison_view
from prunus.report.tables import percent
from prunus.terminal import plain_console

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prunus.catalog import MethodDescription
    from prunus.measure.comparison import Comparison
    from prunus.report.paper_tables import RecomputedRow

METHOD_COLUMNS = ("method", "what it does", "Params")
ALL_METHOD_COLUMNS = ("method", "what it does, and its paper", "a domain adds", "Params", "MACs")
BUDGETS_HELP = "--budgets must be numbers separated by commas, such as 1,0.5,0.25"
Seeds = Annotated[
    str | None, typer.Option(help="Seeds to repeat every training run with, as in 0,1,2.", show_default="the recipe's")
]
Split = Annotated[str, typer.Option(help="Images to measure on: test, validation or train.")]
PAPER_COLUMNS = ("method", "S", "±", "S_O", "± %", "S_P", "± %", "S_E", "± %")


def methods(
    names: Annotated[
        list[str] | None, typer.Argument(help="Methods to describe with paper, options and cost.", show_default="all")
    ] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """List the methods, or describe some of them: what each does, its paper, its options and its cost.

    Example: prunus methods taps
    """
    from prunus.catalog import NUM_DOMAINS
    from prunus.verbs.methods import methods as describe_methods

    rows = describe_methods(names or ())
    if as_json:
        print_json(rows)
    elif explain or names:
        _describe(rows, explain)
    else:
        table = make_table(METHOD_COLUMNS, left=METHOD_COLUMNS[:2], gap=2)
        table.columns[0].no_wrap = True
        for row in rows:
            table.add_row(row.name, row.summary, f"{row.params_ratio:.2f}")
        show(
            rows,
            False,
            table,
            f"Params: weights to store for {NUM_DOMAINS + 1} domains, relative to the network, before pruning.",
            "prunus methods NAME describes one with its paper and options; --explain describes all.",
        )


def _describe(rows: Sequence[MethodDescription], explain: bool) -> None:
    from prunus.catalog import EXAMPLE, NUM_DOMAINS

    table = make_table(ALL_METHOD_COLUMNS, left=ALL_METHOD_COLUMNS[:3])
    table.columns[0].no_wrap = True
    for row in rows:
        described = Text.assemble(row.summary, "\n", (row.paper, "dim"))
        table.add_row(row.name, described, row.cost, f"{row.params_ratio:.2f}", f"{row.macs_ratio:.2f}")
    console = plain_console()
    console.print(table)
    if any(row.options for row in rows):
        console.print("Options of the table [method] in a recipe, with their defaults:")
    for row in rows:
        for key, option in row.options.items():
            named = f"  {row.name}: {key} = {option.default}  "
            console.print(Text.assemble(named, (option.description, "dim")))
    if explain:
        with_budget = ", ".join(row.name for row in rows if row.has_budget)
        with_masks = ", ".join(row.name for row in rows if row.masked and not row.has_budget)
        accepting = 'All methods with masks accept [sharing] loss = "soft_overlap", which pushes masks apart.'
        say(
            "",
            f"Params: weights and switches of {EXAMPLE} for its source domain and {NUM_DOMAINS} more domains, "
            "relative to the network alone, before pruning.",
            "MACs: relative to the network.",
            *([f"Methods with a budget: {with_budget}."] if with_budget else ()),
            *([f"Methods with masks but no budget: {with_masks}."] if with_masks else ()),
            *([accepting] if with_budget or with_masks else ()),
        )


def compare(
    recipe: Annotated[
        Path, typer.Argument(help="Recipe (TOML); its method and budget are ignored, and methods set the sharing loss.")
    ],
    methods: Annotated[
        str,
        typer.Option(help="Names listed by prunus methods, with options if needed, as in taps:sparsity=0.5,ba2."),
    ] = "all",
    budgets: Annotated[str, typer.Option(help="Budgets of the methods that have one.")] = "1,0.75,0.5,0.25",
    out: Annotated[Path, typer.Option(help="Folder for the runs and the table.")] = Path("runs/compare"),
    seeds: Seeds = None,
    jobs: Annotated[int, typer.Option(min=1, help="Training runs at a time, each in a process of its own.")] = 1,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Begin no training run after so many seconds.", show_default="no limit"),
    ] = None,
    split: Split = "test",
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Train methods of the literature on the same data and print one table.

    Run the same command again to continue an interrupted comparison, or to add methods, budgets and seeds.

    Example: prunus compare recipe.toml --methods union,ba2 --seeds 0,1,2
    """
    console = plain_console(stderr=as_json)
    with TrialsProgress(console) if jobs > 1 else nullcontext() as display:
        comparison = prunus.compare(
            prunus.load_recipe(recipe, overrides or ()),
            out,
            methods,
            _numbers(budgets, BUDGETS_HELP, RecipeError),
            display.watch if display else lambda title: [TrainingProgress(title, console)],
            device,
            not no_cache,
            split,
            _seeds(seeds),
            jobs,
            seconds=math.inf if seconds is None else seconds,
        )
    files = f"Written to {out}: comparison.csv, .json, .md and .tex"
    show(comparison, as_json, comparison_view(comparison, console.width), files)
    _raise_failures(comparison)


def versus(
    recipe: Annotated[Path, typer.Argument(help="Recipe (TOML) of our model file; the others share its settings.")],
    only: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Alternatives, as in finetuned,lora; ours always takes part. "
            "All: finetuned, probe, pruned, lora, ours, ours_int8.",
            show_default="all",
        ),
    ] = "",
    budgets: Annotated[
        str | None,
        typer.Option(help="Budgets of ours beside the recipe's, as in 0.5,1.", show_default="only the recipe's"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for all files, the tables and the plot.")] = Path("runs/versus"),
    seeds: Seeds = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements of every time.")] = 50,
    split: Split = "test",
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Train and measure what you could ship instead: accuracy, bytes and milliseconds on your own domains.

    The alternatives come from packages of PyPI: fine-tuned networks and a linear probe in ONNX Runtime's 8 bits, a
    network cut with Torch-Pruning, and LoRA adapters of PEFT. Run the same command again to make what is missing and to
    time everything again.

    Example: prunus versus recipe.toml --seeds 0,1,2
    """
    from prunus.report.alternatives.tables import versus_view

    console = plain_console(stderr=as_json)
    result = prunus.versus(
        prunus.load_recipe(recipe, overrides or ()),
        out,
        only,
        _numbers(budgets, BUDGETS_HELP, RecipeError) if budgets else (),
        _seeds(seeds),
        rounds,
        split,
        lambda title: [TrainingProgress(title, console)],
        device,
        not no_cache,
    )
    show(result, as_json, versus_view(result), f"Written to {out}: versus.json, .md and .svg")


def sweep(
    recipe: Annotated[Path, typer.Argument(help="Recipe (TOML) that all trials start from.")],
    budgets: Annotated[
        str | None,
        typer.Option(help="Budgets of the methods that have one, as in 0.5,0.25.", show_default="the recipe's"),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Names listed by prunus methods, as in union,ba2, or all.", show_default="the recipe's"),
    ] = None,
    seeds: Seeds = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES", help="A recipe key and its values, as in training.lr=0.01,0.05. May be repeated."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the runs, the table and the plot.")] = Path("runs/sweep"),
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Trials at a time.", show_default="one per GPU, or one")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Ray cluster to run on; auto finds one.", show_default="this machine only")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Images to measure on: test, validation or train.", show_default="test, or validation with --grid"
        ),
    ] = None,
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
    as_json: AsJson = False,
) -> None:
    """Train every combination of budgets, methods, seeds and settings, and plot accuracy against cost.

    With --grid, accuracies are those of validation images: test images must not decide which settings are chosen.
    Run the same command again to continue an interrupted sweep, or to add trials.

    Example: prunus sweep recipe.toml --budgets 0.5,0.25 --seeds 0,1,2
    """
    console = plain_console(stderr=as_json)
    with TrialsProgress(console) as display:
        swept = prunus.sweep(
            prunus.load_recipe(recipe, overrides or ()),
            out,
            methods or (),
            _numbers(budgets, BUDGETS_HELP, RecipeError) if budgets else (),
            _seeds(seeds),
            grid or (),
            jobs=jobs,
            address=address,
            observers=display.watch,
            note=display.note,
            device=device,
            use_cache=not no_cache,
            split=split,
        )
    files = f"Written to {out}: sweep.csv, .json, .md and .tex, and pareto.svg"
    show(swept, as_json, comparison_view(swept, console.width), files)
    _raise_failures(swept)


def _raise_failures(comparison: Comparison) -> None:
    if comparison.failed:
        raise TrainingError("; ".join(f"{name}: {reason}" for name, reason in comparison.failed.items()))


def _numbers(text: str, complaint: str, error: type[prunus.PrunusError]) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise error(f"{complaint}; got {text!r}") from None


def _seeds(text: str | None) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError:
        raise RecipeError(f"--seeds must be whole numbers separated by commas, such as 0,1,2; got {text!r}") from None


def submit(
    target: Annotated[Path, typer.Argument(help="Run folder or model file, trained on the Visual Decathlon.")],
    out: Annotated[Path, typer.Option(help="Zip file to write.")] = Path("results.zip"),
    data: Annotated[
        Path | None, typer.Option(help="The folder decathlon-1.0, if it has moved.", show_default="as trained")
    ] = None,
    crops: CropsOption = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Classify the test images of the Visual Decathlon and write the zipped results.json.

    Example: prunus submit runs/decathlon --out results.zip
    """
    with waiting(f"classifying with {target}"):
        written = prunus.submit(target, out, data, CROPS[crops] if crops else None, device, not no_cache)
    counts = ", ".join(f"{name} {count}" for name, count in written.images.items())
    say(f"{written.path}: {counts}")
    if written.missing:
        say(f"note: the challenge requires all ten sets; missing: {', '.join(written.missing)}")


def score(
    results: Annotated[Path | None, typer.Argument(help="Results file (zip or JSON); needs --labels.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Folder with the true labels as SET_test.json.")] = None,
    benchmark: Annotated[str, typer.Option(help="Benchmark: decathlon or imagenet_to_sketch.")] = "decathlon",
    accuracy: Annotated[
        str | None, typer.Option(help="Accuracies in the order of the paper's tables: 56.9,35.2,...")
    ] = None,
    macs: Annotated[float | None, typer.Option(help="MACs relative to the backbone, for S_O.")] = None,
    params: Annotated[float | None, typer.Option(help="Parameters relative to the backbone, for S_P.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the scores S, S_O, S_P and S_E from accuracies, or from a results file and its labels.

    Example: prunus score results.zip --labels labels --macs 0.25
    """
    if results and labels and accuracy is None:
        if benchmark != "decathlon":
            raise DataError(f"results files can be scored for decathlon only; got --benchmark {benchmark}")
        scored = prunus.score_results(results, labels, macs, params)
    elif accuracy and results is None:
        accuracies = _numbers(accuracy, "--accuracy must be numbers separated by commas", DataError)
        scored = prunus.score_accuracies(benchmark, accuracies, macs, params)
    else:
        raise DataError("pass either --accuracy 56.9,35.2,... or a results file with --labels FOLDER")
    title = f"{scored.benchmark}, {len(scored.accuracies)} of {scored.sets_in_benchmark} sets"
    rows = ((name, percent(share)) for name, share in scored.accuracies.items())
    table = make_table(("set", "accuracy"), title, rows=rows)
    table.add_section()
    for name, key in SCORES.items():
        value = getattr(scored.scores, key)
        if value is not None:
            table.add_row(name, f"{value:.2f}" if name == "S_E" else f"{value:.0f}", style="bold")
    has_relative = scored.scores.s_e is not None
    notes = [f"S_E is relative to the feature extractor's S of {scored.feature_score:.0f}."] if has_relative else []
    show(scored, as_json, table, *notes)


def tables(as_json: AsJson = False) -> None:
    """Recompute the paper's two result tables from its accuracies and list its mistakes.

    Example: prunus tables
    """
    from prunus.report.paper_tables import SLIPS

    rows = prunus.tables()
    views = (
        make_table(
            PAPER_COLUMNS,
            f"{benchmark.title}: as printed, and the difference when recomputed",
            rows=(_paper_cells(row) for row in rows if row.benchmark == name),
        )
        for name, benchmark in BENCHMARKS.items()
    )
    slips = (
        f"- {slip.benchmark}, {slip.where}: printed {slip.printed}, should be {slip.corrected}: {slip.why}"
        for slip in SLIPS
    )
    note = "S is recomputed from the accuracies; S_O, S_P and S_E from the printed S. * compared with 280."
    show({"rows": rows, "slips": SLIPS}, as_json, *views, note, "Mistakes in the paper:", *slips)


def _paper_cells(row: RecomputedRow) -> Iterator[str]:
    printed = row.printed
    computed = row.computed
    yield printed.method
    yield f"{printed.s:.0f}{'*' if row.corrected.s != printed.s else ''}"
    yield f"{computed.s - row.corrected.s:+.1f}"
    for old, new in ((printed.s_o, computed.s_o), (printed.s_p, computed.s_p), (printed.s_e, computed.s_e)):
        yield f"{old:g}"
        yield "-" if new is None else f"{100 * (new / old - 1):+.2f}"
