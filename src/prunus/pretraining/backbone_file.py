"""Train a backbone in a run folder and write it as one weights file."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from prunus.backbone.card import BackboneCard, write_backbone
from prunus.checkpoints.provenance import public_recipe
from prunus.config import DEMO_PREFIX, Recipe
from prunus.data.layouts import open_domain
from prunus.errors import DataError, RecipeError, TrainingInterrupted
from prunus.evaluation.classifying import classify_domains
from prunus.evaluation.subject import open_subject
from prunus.parallel.joining import is_first_process
from prunus.pretraining.recipe import with_warmup_of
from prunus.recipes import load_stored_recipe, recipe_differences
from prunus.run_folder import EpochReport, RunFolder
from prunus.training.observers import Observer
from prunus.training.planning import CHANGEABLE
from prunus.training.run import open_run, resume_run, train_or_continue
from prunus.version import __version__

SUFFIX = ".safetensors"


def train_backbone(
    recipe: Recipe, out: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe in the folder beside `out`, or continue there, and write the network to `out`."""
    if out.suffix != SUFFIX:
        raise RecipeError(f"the weights file must end in {SUFFIX}, as in backbones/mine{SUFFIX}; got {out}")
    if out.is_dir():
        raise RecipeError(f"{out} is a folder; name a file for the weights")
    if len(recipe.domains) != 1 or recipe.method is None or recipe.method.name != "finetune":
        raise RecipeError('a backbone is trained on one domain with method = "finetune"; see prunus.pretraining_recipe')
    _check_images(recipe)
    run = out.with_suffix("")
    try:
        _train(recipe, run, observers, device, use_cache)
    except TrainingInterrupted as stop:
        saved = str(stop).partition(";")[0]
        raise TrainingInterrupted(f"{saved} in {run}; the same command continues") from None
    if is_first_process():
        _write(run, out, device, use_cache)


def _check_images(recipe: Recipe) -> None:
    (choice,) = recipe.domains
    if not choice.path.startswith(DEMO_PREFIX) and not Path(choice.path).exists():
        raise DataError(
            f"the folder of images {choice.path} does not exist; "
            "name a folder or zip file with images as <split>/<class>/<image>"
        )


def _train(recipe: Recipe, run: Path, observers: Sequence[Observer], device: str, use_cache: bool) -> None:
    folder = RunFolder(run)
    begun = load_stored_recipe(folder.recipe) if folder.recipe.exists() else None
    if begun is not None:
        recipe = with_warmup_of(begun, recipe)
    if begun is not None and begun != recipe and not recipe_differences(begun, recipe, except_for=CHANGEABLE):
        resume_run(run, observers, device, recipe, use_cache)
    else:
        train_or_continue(recipe, run, observers, device, use_cache)


def _write(run: Path, out: Path, device: str, use_cache: bool) -> None:
    trained = open_run(run, "cpu")
    recipe = trained.recipe
    (choice,) = recipe.domains
    domain = open_domain(choice, recipe.training.validation_share)
    held_out = recipe.training.splits == "train" and domain.validation
    card = BackboneCard(
        name=recipe.backbone.name,
        preprocess=trained.preprocess[choice.name],
        trained_on=choice.name,
        classes=domain.classes,
        images=len(domain.split(recipe.training.splits)),
        epochs=recipe.training.num_epochs,
        accuracy=_validation_accuracy(run, device, use_cache) if held_out else None,
        images_per_second=images_per_second(RunFolder(run).epochs()),
        prunus=__version__,
    )
    (head,) = trained.net.heads
    tensors = {f"head.{name}": tensor for name, tensor in head.state_dict().items()}
    tensors |= trained.net.tensors(choice.name)
    write_backbone(out, tensors, card, public_recipe(recipe).model_dump_json())


def _validation_accuracy(run: Path, device: str, use_cache: bool) -> float:
    (answers,) = classify_domains(open_subject(run, device), "validation", use_cache=use_cache)
    return answers.accuracy()


def images_per_second(epochs: Sequence[EpochReport]) -> float | None:
    """Return the training images per second of the median epoch."""
    speeds = [epoch.images_per_second for epoch in epochs if epoch.images_per_second > 0]
    return statistics.median(speeds) if speeds else None
