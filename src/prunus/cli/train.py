"""Commands that make a model or change one: `plan`, `train`, `prune`, `pretrain`, `add-domain` and `remove-domain`."""

from __future__ import annotations

import json
import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import prunus
from prunus.amounts import plural
from prunus.cli.options import AsJson, Device, NoCache, Overrides
from prunus.cli.output import make_table, measuring, say, show, tell, waiting
from prunus.cli.wording import on_command_line
from prunus.errors import AccuracyWarning, BudgetWarning, RecipeError
from prunus.measure.budget import in_words
from prunus.progress.training import TrainingProgress
from prunus.recipes import load_stored_recipe
from prunus.report.plan import plan_view
from prunus.report.tables import file_size, percent
from prunus.run_folder import RunFolder
from prunus.terminal import plain_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prunus.arrays import DType
    from prunus.config import Recipe


def plan(
    recipe: Annotated[Path, typer.Argument(help="Recipe (TOML).")],
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show what the model of a recipe will hold, weigh and compute, before anything is trained.

    A budget that cannot be kept is refused, with the smallest value that can.

    Example: prunus plan recipe.toml --set budget.bytes="300 kB"
    """
    chosen = _load(recipe, overrides or ())  # before torch is imported, which takes seconds
    with waiting("planning"):
        planned = prunus.plan(chosen)
    show(planned, as_json, plan_view(planned))


def train(
    recipe: Annotated[Path | None, typer.Argument(help="Recipe (TOML).")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for a new run.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Folder of a run to continue.")] = None,
    init: Annotated[Path | None, typer.Option(help="Folder of a run whose network the new run starts from.")] = None,
    final: Annotated[bool, typer.Option("--final", help="Train on the train and validation images.")] = False,
    skip_bad_images: Annotated[bool, typer.Option("--skip-bad-images", help="Skip unreadable images.")] = False,
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Train one network on all domains of a recipe, within its budget.

    Pass a recipe with --out to start a run, or --resume to continue one.

    To train a run for longer, add --set training.epochs=N to --resume.

    Example: prunus train recipe.toml --out runs/a --set budget=0.5
    """
    flags = {"training.splits=train+validation": final, "skip_bad_images=true": skip_bad_images}
    changes = [*(overrides or ()), *(change for change, is_set in flags.items() if is_set)]
    changes += [f"init={json.dumps(str(init))}"] if init else []
    of_run = RunFolder(resume).recipe if resume and changes else None
    source = recipe or (of_run if of_run and of_run.exists() else None)  # a missing run is refused below
    load = load_stored_recipe if source is of_run else _load
    chosen = load(source, changes) if source else None
    watch = [TrainingProgress(f"{resume or out}", plain_console())]
    before = _steps_of_finished(resume) if resume else None
    if resume:
        if out:
            raise RecipeError("--resume continues in the run's own folder; remove --out")
        run = prunus.resume(resume, watch, device, chosen, not no_cache)
    elif chosen and out:
        run = prunus.train(chosen, out, watch, device, not no_cache)
    else:
        raise RecipeError(
            "pass a recipe and a folder (prunus train recipe.toml --out runs/a) or a run (prunus train --resume runs/a)"
        )
    from prunus.verbs.train import next_steps

    if steps := next_steps(run):
        _show_ending(run, can_be_measured=steps.startswith("prunus evaluate"))
        is_old = before is not None and before == _steps_of_finished(run)
        done = "The run was finished already; --set training.epochs=N trains it for longer." if is_old else "Done."
        say(f"{done} Next: {steps}")


def _load(recipe: Path, changes: Sequence[str]) -> Recipe:
    """Load a recipe; a folder of images and a name without its ending are easy to take for one."""
    if recipe.is_dir():
        name = shlex.quote(str(recipe))
        raise RecipeError(f"{recipe} is a folder, not a recipe; write a recipe for its images with: prunus init {name}")
    written = recipe.with_name(f"{recipe.name}.toml")
    if not recipe.exists() and written.exists():
        raise RecipeError(f"no recipe file at {recipe}; did you mean {str(written)!r}?")
    return prunus.load_recipe(recipe, changes)


def _steps_of_finished(run: Path) -> int | None:
    """Return how far a run that has ended was trained; the state that it has kept may be an earlier one."""
    folder = RunFolder(run)
    if folder.read_ending() is None:
        return None
    return max((epoch.step for epoch in folder.epochs()), default=0)


def _show_ending(run: Path, can_be_measured: bool) -> None:
    """Show what the domains have reached beside what needs no training."""
    ending = RunFolder(run).read_ending()
    if ending is None:  # of an earlier version
        return
    if ending.mean_accuracy() is None:
        how = f" Measure the accuracy with: prunus evaluate {run}" if can_be_measured else ""
        say(f"No images were held out for validation.{how}")
        return
    table = make_table(("domain", "validation", "frozen features", "chance", "kernels used"), gap=3)
    for name, domain in ending.domains.items():
        shares = (domain.validation_accuracy, domain.frozen_accuracy, domain.chance, domain.usage)
        table.add_row(name, *map(percent, shares))
    if not ending.has_switches:
        del table.columns[4]
    plain_console().print(table)


def prune(
    run: Annotated[Path, typer.Argument(help="Run folder, or a model file of floats to write again in another type.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")] = Path("model.prunus"),
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Type of the stored weights: float32, float16, bfloat16 or int8.",
            show_default="of a run the recipe's, of a file its own",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="For int8: folder with the domains by name, whose training images choose the 8-bit numbers.",
            show_default="as trained",
        ),
    ] = None,
) -> None:
    """Remove every kernel that no domain uses and write one model file.

    In 8 bits: prunus prune runs/a --out small.prunus --dtype int8

    Example: prunus prune runs/a --out model.prunus
    """
    from prunus.bundle.file import read_bundle
    from prunus.measure.bundle_cost import bundle_costs
    from prunus.measure.eight_bits.summary import eight_bits_of
    from prunus.verbs.prune import find_problems, limits_of_file, watched_by

    with warnings.catch_warnings(), measuring(f"pruning {run}") as watch, watched_by(watch):
        warnings.simplefilter("ignore", BudgetWarning)  # printed below
        warnings.simplefilter("ignore", AccuracyWarning)
        path = prunus.prune(run, out, cast("DType | None", dtype), data)  # any other is refused
    bundle = read_bundle(path)
    costs = bundle_costs(bundle)
    kept = sum(layer.union for layer in costs.layers)
    tell(
        f"{path}: {file_size(path.stat().st_size)} for {plural(len(bundle.domains), 'domain')} "
        f"({', '.join(bundle.domains)}), "
        f"{percent(costs.union())} of the kernels kept ({kept:,} of {costs.num_kernels():,}), {bundle.dtype}; "
        f"the dense backbone alone has {file_size(bundle.manifest.dense_bytes)}"
    )
    if eight_bits := eight_bits_of(bundle):
        tell(*eight_bits.in_words())
        for note in eight_bits.notes():
            say(f"note: {note}")
    limits = limits_of_file(path)
    if limits and all(limit.kept for limit in limits):
        say(f"budget kept: {in_words(limits)}")
    for problem in find_problems(path, run):
        say(f"note: {on_command_line(problem)}")


def add_domain(  # one parameter per option
    model: Annotated[Path, typer.Argument(help="Model file, or the folder of a finished run.")],
    images: Annotated[str, typer.Argument(help="Folder or zip file of the new domain.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")],
    name: Annotated[str | None, typer.Option(help="Name of the domain.", show_default="the folder's")] = None,
    grow: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Kernels of the original network that may be added, as in 5%."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Train a domain of the model again.")] = False,
    teacher: Annotated[
        str, typer.Option(help="finetune: fine-tune a network first and learn its answers too; none; or a run.")
    ] = "finetune",
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights that the model was made from: a file, or random.", show_default="the bundled ones"),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(help="Folder to train in; continues there if interrupted.", show_default="OUT.run"),
    ] = None,
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Learn one more domain inside a finished model.

    The domain gets masks, norms and a classifier of its own. No stored weight changes, and all other domains answer
    exactly as before.

    Example: prunus add-domain model.prunus data/cars --out larger.prunus
    """
    before = model.stat().st_size if model.is_file() else None
    path = prunus.add_domain(
        model,
        images,
        out,
        name=name,
        grow=grow,
        replace=replace,
        teacher=None if teacher == "none" else teacher,
        weights=weights,
        settings=overrides or (),
        run=run,
        device=device,
        use_cache=not no_cache,
        progress=True,
    )
    _show_change(path, before)
    from prunus.verbs.prune import limits_of_file

    over = [limit for limit in limits_of_file(path) if not limit.kept]
    if over:
        say(f"note: with this domain the model is over its budget: {in_words(over)}")


def remove_domain(
    model: Annotated[Path, typer.Argument(help="Model file.")],
    domain: Annotated[str, typer.Argument(help="Domain to remove.")],
    out: Annotated[Path, typer.Option(help="Model file to write.")],
) -> None:
    """Remove a domain from a model file, with the kernels that only this domain used.

    All other domains answer exactly as before.

    Example: prunus remove-domain model.prunus cars --out smaller.prunus
    """
    before = model.stat().st_size if model.is_file() else None
    _show_change(prunus.remove_domain(model, domain, out), before)


def _show_change(path: Path, before: int | None) -> None:
    """Show the domains and the size of a changed model file."""
    from prunus.bundle.file import read_bundle

    bundle = read_bundle(path)
    size = path.stat().st_size
    change = "" if before is None else f" ({size - before:+,} bytes)"
    names = ", ".join(bundle.domains)
    say(f"{path}: {file_size(size)}{change} for {plural(len(bundle.domains), 'domain')} ({names})")


def pretrain(
    images: Annotated[str, typer.Argument(help="Folder or zip file of classes, with a train split.")],
    out: Annotated[Path, typer.Option(help="Weights file to write (.safetensors); its run is kept beside it.")],
    backbone: Annotated[str, typer.Option(help="Network to train; see prunus zoo.")] = "wrn28_4",
    size: Annotated[int | None, typer.Option(help="Input pixels.", show_default="the network's")] = None,
    epochs: Annotated[int, typer.Option(help="Length of training.")] = 90,
    overrides: Overrides = None,
    device: Device = "auto",
    no_cache: NoCache = False,
) -> None:
    """Train a backbone from random weights on a folder of classes.

    Recipes use its file as backbone.weights. The same command continues an interrupted run.

    Example: prunus pretrain data/imagenet --out backbones/mine.safetensors
    """
    from prunus.backbone.card import read_card
    from prunus.parallel.joining import is_first_process

    recipe = prunus.pretraining_recipe(images, backbone, size, epochs, overrides or ())
    path = prunus.pretrain(recipe, out, [TrainingProgress(f"{out}", plain_console())], device, not no_cache)
    if not is_first_process():  # of several that torchrun started
        return
    card = read_card(path)
    assert card is not None  # it was just written
    accuracy = "" if card.accuracy is None else f", validation accuracy {percent(card.accuracy)}"
    speed = f", {card.images_per_second:,.0f} images/s" if card.images_per_second else ""
    say(
        f"{path}: {card.name} at {card.preprocess.size} px, {plural(len(card.classes), 'class', 'classes')}, "
        f"{plural(card.images, 'image')}"
        f"{accuracy}{speed}",
        f'Use it in a recipe: backbone = {{ name = "{card.name}", weights = "{path}" }}',
    )
