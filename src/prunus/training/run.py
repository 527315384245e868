"""Start, resume and open training runs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prunus.backbone.device import choose_device
from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.checkpoints.checkpoint import Checkpoint, read_checkpoint, share_checkpoint
from prunus.config import Recipe
from prunus.errors import RecipeError, TrainingError
from prunus.images import Preprocess
from prunus.learning.learner import copy_state, network_state
from prunus.losses.sharing import find_sharing_loss
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt, choose_method, with_method
from prunus.parallel.joining import join_processes
from prunus.parallel.processes import Processes
from prunus.recipes import TRAINED_FIRST, load_stored_recipe, recipe_differences, with_absolute_paths
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer, Observers
from prunus.training.settling import settled_like
from prunus.training.setup import RecipeTraining, check_same

# what a resumed run may change: none of it changes what was trained before
CHANGEABLE = ("training.epochs", "training.patience", "training.checkpoint_seconds", "training.workers")


@dataclass(frozen=True)
class TrainedRun:
    """A run, opened for measuring or pruning."""

    recipe: Recipe
    backbone: Backbone
    net: MultiDomainNet
    preprocess: dict[str, Preprocess]
    checkpoint: Checkpoint


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
    judging = recipe.training.keep == "best" or recipe.training.patience
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


def start_run(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe into a new folder; processes that torchrun has restarted continue what they began there."""

    def plan(is_restarted: bool) -> Plan | None:
        absolute = with_absolute_paths(recipe, Path.cwd())  # as the run has kept it
        return (_plan_either if is_restarted else _plan_start)(absolute, path)

    _train(plan, path, Observers(observers), device, use_cache)


def resume_run(
    path: Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    recipe: Recipe | None = None,
    use_cache: bool = True,
) -> None:
    """Continue a run as if it had never stopped; a recipe passed along may differ in its length only."""
    _train(lambda _: _plan_resume(path, recipe), path, Observers(observers), device, use_cache)


def train_or_continue(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe from the beginning, continue where it stopped, or do nothing if it is finished."""
    _train(lambda _: _plan_either(recipe, path), path, Observers(observers), device, use_cache)


def _train(
    make_plan: Callable[[bool], Plan | None], path: Path, observer: Observers, device: str, use_cache: bool
) -> None:
    """Train what the first process plans, in all processes; the others need neither the folder nor its files."""
    with join_processes(choose_device(device)) as processes:
        if processes.is_restarted:
            _check_disk(path, processes)
        together = _Together(processes, observer if processes.is_first else Observers([]), use_cache)
        together.train(partial(make_plan, processes.is_restarted), path)


@dataclass(frozen=True)
class _Together:
    """The processes that train, and how."""

    processes: Processes
    observer: Observers
    use_cache: bool

    def train(self, make_plan: Callable[[], Plan | None], path: Path) -> None:
        """Train what the first process plans into a folder."""
        plan = None
        if self.processes.is_first:
            plan = make_plan()
            self.processes.remember_start()  # not if the plan was refused
        content = self.processes.agree(plan.recipe.model_dump_json() if plan else None)
        start = share_checkpoint(plan.start if plan else None, self.processes)
        if content is not None:
            recipe = plan.recipe if plan else Recipe.model_validate_json(content)
            teacher = self._teacher(recipe, path) if recipe.teacher else None
            RecipeTraining(recipe, RunFolder(path), self.observer, self.use_cache, self.processes, teacher).run(start)

    def _teacher(self, recipe: Recipe, path: Path) -> MultiDomainNet:
        """Open the run that teaches a recipe, and train it first if the recipe asks for that."""
        folder = Path(recipe.teacher or "")
        if recipe.teacher == TRAINED_FIRST:
            folder = RunFolder(path).teacher
            if not _is_finished(folder):  # a finished teacher serves a longer run too
                self.observer.noted(f"the teacher is trained first, in {folder}")
                self.train(lambda: _plan_either(teacher_recipe(recipe), folder), folder)
        return open_run(folder, str(self.processes.device)).net


def _is_finished(path: Path) -> bool:
    file = RunFolder(path).checkpoint
    return file.exists() and read_checkpoint(file).position.is_finished


def teacher_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of a network per domain that teaches another recipe, trained with the same settings."""
    own = {"budget", "granularity", "sharing", "init", "teacher", "dtype"}
    content = recipe.model_dump(mode="json", exclude=own) | {"method": TRAINED_FIRST}
    return with_method(Recipe.model_validate_json(json.dumps(content)))


def _check_disk(path: Path, processes: Processes) -> None:
    """Refuse to begin again where another machine could continue."""
    has_run = RunFolder(path).checkpoint.exists()
    if processes.any([has_run]) == [True] and processes.is_first and not has_run:
        raise TrainingError(
            f"torchrun has made another machine the first one, and {path} is not on it; "
            "put the run on a disk that all machines share, or copy it to this machine"
        )


def _plan_start(recipe: Recipe, path: Path) -> Plan:
    if RunFolder(path).recipe.exists():
        raise TrainingError(
            f"{path} already holds a run; continue it with: prunus train --resume {path}, or choose another --out"
        )
    check_recipe(recipe)
    return Plan(with_absolute_paths(with_method(recipe), Path.cwd()), None)


def _plan_resume(path: Path, recipe: Recipe | None) -> Plan:
    folder = RunFolder(path)
    if not folder.recipe.exists():
        raise TrainingError(f"{path} holds no run to resume; start one with: prunus train recipe.toml --out {path}")
    trained = load_stored_recipe(folder.recipe)
    start = _read_checkpoint_of(folder, trained, folder.checkpoint) if folder.checkpoint.exists() else None
    if recipe is not None:
        wanted = settled_like(with_method(recipe), trained)
        _check_extension(path, trained, wanted, start)
        trained = wanted
    return Plan(trained, start)


def _plan_either(recipe: Recipe, path: Path) -> Plan | None:
    folder = RunFolder(path)
    if not folder.recipe.exists():
        return _plan_start(recipe, path)
    if not folder.checkpoint.exists():
        return _plan_resume(path, recipe)
    trained = load_stored_recipe(folder.recipe)
    wanted = settled_like(with_method(recipe), trained)
    if changes := recipe_differences(trained, wanted):
        raise TrainingError(
            f"{path} holds a run of another recipe ({'; '.join(changes[:3])}); remove {path} or choose another --out"
        )
    saved = _read_checkpoint_of(folder, trained, folder.checkpoint)
    # a run that was killed before the first checkpoint of its extension has the shorter recipe there
    is_extended = bool(recipe_differences(saved.identity.recipe, wanted))
    return None if saved.position.is_finished and not is_extended else _plan_resume(path, recipe)


def _check_extension(path: Path, trained: Recipe, wanted: Recipe, start: Checkpoint | None) -> None:
    if changes := recipe_differences(trained, wanted, except_for=CHANGEABLE):
        raise TrainingError(
            f"{path} was trained with another recipe ({'; '.join(changes[:3])}); a resumed run may only change "
            f"{', '.join(CHANGEABLE)}; remove the other changes, or choose a new --out"
        )
    if start is None or start.identity.recipe.training.epochs == wanted.training.epochs:
        return
    if wanted.training.strategy == "individual" or choose_method(wanted).method.individual:
        raise TrainingError(f"{path} trains one domain after another and cannot be extended; start a new run")
    before = start.identity.recipe.training.num_epochs  # the recipe in the folder may already be an extended one
    done = start.position.step / start.position.total_steps * before
    if wanted.training.num_epochs < done:
        raise TrainingError(f"{path} has already trained {done:.1f} epochs; training.epochs must be at least that")


def open_run(path: Path, device: str = "auto") -> TrainedRun:
    """Load the network of a run as it was last saved; the images are not needed."""
    folder = RunFolder(path)
    if not folder.recipe.exists():
        raise TrainingError(
            f"{path} is neither a run folder nor a model file; train a run with: prunus train recipe.toml --out {path}"
        )
    recipe = load_stored_recipe(folder.recipe)
    keeps_best = recipe.training.keep == "best" and folder.best.exists()
    checkpoint = _read_checkpoint_of(folder, recipe, folder.best if keeps_best else folder.checkpoint)
    backbone = load_backbone(recipe.backbone)
    check_same("backbone", checkpoint.identity.backbone, fingerprint(backbone.network))
    chosen = choose_method(recipe)
    net = adapt(backbone, checkpoint.identity.classes, chosen.name, recipe.seed, chosen.options)
    copy_state(checkpoint.tensors, network_state(net))
    net = net.to(choose_device(device)).eval()
    return TrainedRun(recipe, backbone, net, checkpoint.identity.preprocess, checkpoint)


def _read_checkpoint_of(folder: RunFolder, recipe: Recipe, file: Path) -> Checkpoint:
    checkpoint = read_checkpoint(file)
    if changes := recipe_differences(recipe, checkpoint.identity.recipe, except_for=CHANGEABLE):
        raise TrainingError(
            f"{file} was saved by another recipe than {folder.recipe} ({'; '.join(changes[:3])}); "
            "put the run's own files back together, or train it again"
        )
    return checkpoint
