"""Decide what to train, and the checkpoint to continue from, before any work is done."""

from dataclasses import dataclass
from pathlib import Path

from prunus.checkpoints.checkpoint import Checkpoint
from prunus.checkpoints.last import read_last
from prunus.config import Recipe
from prunus.errors import RecipeError, TrainingError
from prunus.losses.sharing import find_sharing_loss
from prunus.methods.exact import Options
from prunus.methods.table import ChosenMethod, choose_method, with_method
from prunus.names import is_utf8
from prunus.recipes import load_stored_recipe, recipe_differences, with_absolute_paths
from prunus.run_folder import RunFolder
from prunus.training.settling import settled_like

# what a resumed run may change: none of it changes what was trained before
CHANGEABLE = ("training.epochs", "training.patience", "training.checkpoint_seconds", "training.workers")


@dataclass(frozen=True)
class Plan:
    """What to train, and the checkpoint to continue from."""

    recipe: Recipe
    start: Checkpoint | None


def check_recipe(recipe: Recipe) -> None:
    """Refuse unknown names and contradictory settings before any work is done."""
    chosen = choose_method(recipe)
    if chosen.sharing:
        find_sharing_loss(chosen.sharing)
    _check_budget(recipe)
    alone = recipe.training.strategy == "individual" or chosen.method.individual
    if alone and (chosen.method.together or chosen.sharing):
        what = f"the sharing loss {chosen.sharing!r}" if chosen.sharing else f"method {chosen.name!r}"
        raise RecipeError(
            f"strategy 'individual' trains each domain alone, but {what} needs domains to learn together; "
            'use another strategy, or method = "ba2" without a sharing loss'
        )
    _check_rounding(recipe, chosen)
    judging = recipe.training.keep == "best" or recipe.training.patience
    per = getattr(chosen.options, "budget_per", "network")
    if judging and per != "network":
        raise RecipeError(
            f"training.keep and training.patience judge epochs by the share of all kernels, not per {per}; "
            "remove them, or method.budget_per"
        )
    if judging and alone:
        raise RecipeError(
            "strategy 'individual' trains one domain after another, so no epoch is the best of all; "
            "remove training.keep and training.patience"
        )
    if judging and recipe.training.splits != "train":
        raise RecipeError(
            f"training.splits = {recipe.training.splits!r} leaves no validation images to find the best epoch; "
            "remove training.keep and training.patience"
        )


def _check_budget(recipe: Recipe) -> None:
    chosen = choose_method(recipe)
    others = [name for name in recipe.budget.limits() if name != "kernels"]
    if others and not chosen.method.keeps_budget:
        knows = "limits a share of the kernels only" if chosen.method.has_budget else "has no budget"
        raise RecipeError(
            f"method {chosen.name!r} {knows}, but the recipe sets budget.{others[0]}; "
            'use method = "exact", or a share such as budget = 0.25'
        )


def _check_rounding(recipe: Recipe, chosen: ChosenMethod) -> None:
    """Refuse rounding that no model file would gain from, or that would never begin."""
    if recipe.training.quantize is None:
        return
    if not chosen.method.packable:
        raise RecipeError(
            f"training.quantize prepares a model file, and none can hold method {chosen.name!r}; remove it"
        )
    if isinstance(chosen.options, Options) and chosen.options.until == 1:
        raise RecipeError(
            "training.quantize rounds after the kernels are chosen, and method.until = 1 leaves no time for it; "
            "set a smaller method.until, such as 0.5"
        )


def plan_start(recipe: Recipe, path: Path) -> Plan:
    """Plan a new run, in a folder without one."""
    if not is_utf8(str(path.absolute())):  # TensorBoard cannot write there
        raise TrainingError(f"the folder {path.absolute()} is not valid UTF-8; choose another folder")
    if RunFolder(path).holds_run():
        raise TrainingError(
            f"{path} already holds a run; continue it with: prunus.resume({str(path)!r}), or choose another folder"
        )
    check_recipe(recipe)
    return Plan(with_absolute_paths(with_method(recipe), Path.cwd()), None)


def plan_resume(path: Path, recipe: Recipe | None) -> Plan:
    """Plan to continue a run from its last checkpoint, or from the one before if that is damaged."""
    folder = RunFolder(path)
    if not folder.holds_run():
        raise TrainingError(
            f"{path} holds no run to resume; start one with: prunus.train('recipe.toml', {str(path)!r})"
        )
    start = read_last(folder)
    trained = stored_recipe(folder, start)
    if recipe is not None:
        wanted = settled_like(with_method(recipe), trained)
        _check_extension(path, trained, wanted, start)
        trained = wanted
    return Plan(trained, start)


def plan_either(recipe: Recipe, path: Path) -> Plan | None:
    """Plan a new run, or to continue the run of this recipe; None if it is finished."""
    folder = RunFolder(path)
    if not folder.holds_run():
        return plan_start(recipe, path)
    saved = read_last(folder)
    if saved is None:
        return plan_resume(path, recipe)
    trained = stored_recipe(folder, saved)
    wanted = settled_like(with_method(recipe), trained)
    if changes := recipe_differences(trained, wanted):
        raise TrainingError(
            f"{path} holds a run of another recipe ({'; '.join(changes[:3])}); remove {path} or choose another folder"
        )
    # a run that was killed before the first checkpoint of its extension has the shorter recipe there
    is_extended = bool(recipe_differences(saved.identity.recipe, wanted))
    return None if saved.position.is_finished and not is_extended else plan_resume(path, recipe)


def _check_extension(path: Path, trained: Recipe, wanted: Recipe, start: Checkpoint | None) -> None:
    if changes := recipe_differences(trained, wanted, except_for=CHANGEABLE):
        raise TrainingError(
            f"{path} was trained with another recipe ({'; '.join(changes[:3])}); a resumed run may only change "
            f"{', '.join(CHANGEABLE)}; remove the other changes, or choose a new folder"
        )
    if start is None or start.identity.recipe.training.epochs == wanted.training.epochs:
        return
    if wanted.training.strategy == "individual" or choose_method(wanted).method.individual:
        raise TrainingError(f"{path} trains one domain after another and cannot be extended; start a new run")
    before = start.identity.recipe.training.num_epochs  # the recipe in the folder may already be an extended one
    done = start.position.step / start.position.total_steps * before
    if wanted.training.num_epochs < done:
        raise TrainingError(f"{path} has already trained {done:.1f} epochs; training.epochs must be at least that")


def stored_recipe(folder: RunFolder, saved: Checkpoint | None) -> Recipe:
    """Read the recipe of a run, which must fit its checkpoint; without a file, the checkpoint's own is the one."""
    if saved is not None and not folder.recipe.exists():
        return saved.identity.recipe
    recipe = load_stored_recipe(folder.recipe)
    changes = recipe_differences(recipe, saved.identity.recipe, except_for=CHANGEABLE) if saved else []
    if changes:
        raise TrainingError(
            f"the checkpoint in {folder.path} was saved by another recipe than {folder.recipe} "
            f"({'; '.join(changes[:3])}); put the run's own files back together, "
            f"or remove {folder.recipe.name} to use the recipe in the checkpoint"
        )
    return recipe
