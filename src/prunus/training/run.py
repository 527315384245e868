"""Start, resume and open training runs."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prunus.backbone.device import choose_device
from prunus.backbone.weights import fingerprint
from prunus.backbone.zoo import Backbone
from prunus.checkpoints.changes import check_same
from prunus.checkpoints.checkpoint import Checkpoint, read_checkpoint, share_checkpoint
from prunus.checkpoints.last import note_about, read_kept
from prunus.checkpoints.lock import locked
from prunus.config import Recipe
from prunus.errors import DamagedFileError, TrainingError
from prunus.images import Preprocess
from prunus.learning.learner import copy_state, network_state
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt, choose_method, with_method
from prunus.parallel.joining import join_processes
from prunus.parallel.processes import Processes
from prunus.recipes import TRAINED_FIRST, with_absolute_paths
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer, Observers
from prunus.training.planning import Plan, plan_either, plan_resume, plan_start, stored_recipe
from prunus.training.setup import RecipeTraining, as_trained, load_kept_backbone
from prunus.training.teachers import TeachingRun


@dataclass(frozen=True)
class TrainedRun:
    """A run, opened for measuring or pruning.

    Args:
        folder: where it is.
    """

    recipe: Recipe
    backbone: Backbone
    net: MultiDomainNet
    preprocess: dict[str, Preprocess]
    checkpoint: Checkpoint
    folder: Path


def start_run(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe into a new folder; processes that torchrun has restarted continue what they began there."""

    def plan(is_restarted: bool) -> Plan | None:
        absolute = with_absolute_paths(recipe, Path.cwd())  # as the run has kept it
        return (plan_either if is_restarted else plan_start)(absolute, path)

    _train(plan, path, Observers(observers), device, use_cache)


def resume_run(
    path: Path,
    observers: Sequence[Observer] = (),
    device: str = "auto",
    recipe: Recipe | None = None,
    use_cache: bool = True,
) -> None:
    """Continue a run as if it had never stopped; a recipe passed along may differ in its length only."""
    _train(lambda _: plan_resume(path, recipe), path, Observers(observers), device, use_cache)


def train_or_continue(
    recipe: Recipe, path: Path, observers: Sequence[Observer] = (), device: str = "auto", use_cache: bool = True
) -> None:
    """Train a recipe from the beginning, continue where it stopped, or do nothing if it is finished."""
    _train(lambda _: plan_either(recipe, path), path, Observers(observers), device, use_cache)


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
        """Train what the first process plans into a folder, which no other command may train in meanwhile."""
        with locked(RunFolder(path)) if self.processes.is_first else nullcontext():
            self._train(make_plan, path)

    def _train(self, make_plan: Callable[[], Plan | None], path: Path) -> None:
        plan = None
        if self.processes.is_first:
            plan = make_plan()
            self.processes.remember_start()  # not if the plan was refused
            if plan and (note := note_about(plan.start)):
                self.observer.noted(note)
        content = self.processes.agree(plan.recipe.model_dump_json() if plan else None)
        start = share_checkpoint(plan.start if plan else None, self.processes)
        if content is not None:
            recipe = plan.recipe if plan else Recipe.model_validate_json(content)
            teacher = self._teacher(recipe, path) if recipe.teacher else None
            RecipeTraining(recipe, RunFolder(path), self.observer, self.use_cache, self.processes, teacher).run(start)

    def _teacher(self, recipe: Recipe, path: Path) -> TeachingRun:
        """Open the run that teaches a recipe, and train it first if the recipe asks for that."""
        folder = Path(recipe.teacher or "")
        if recipe.teacher == TRAINED_FIRST:
            folder = RunFolder(path).teacher
            if not self.processes.agree(_is_finished(folder)):  # a finished teacher serves a longer run too
                self.observer.noted(f"the teacher is trained first, in {folder}")
                self.train(lambda: plan_either(teacher_recipe(recipe), folder), folder)
                self.processes.barrier()  # only the first writes, and it writes the end when the others are done
        run = open_run(folder, str(self.processes.device))
        return TeachingRun(run.net, run.recipe, RunFolder(folder))


def _is_finished(path: Path) -> bool:
    file = RunFolder(path).checkpoint
    try:
        return file.exists() and read_checkpoint(file).position.is_finished
    except DamagedFileError:  # it may be continued from the checkpoint before
        return False


def teacher_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe of a network per domain that teaches another recipe, trained with the same settings."""
    own = {"budget", "granularity", "sharing", "init", "teacher", "dtype"}
    content = recipe.model_dump(mode="json", exclude=own) | {"method": TRAINED_FIRST}
    content["training"].pop("quantize", None)  # its answers are learned, not its numbers
    return with_method(Recipe.model_validate_json(json.dumps(content)))


def _check_disk(path: Path, processes: Processes) -> None:
    """Refuse to begin again where another machine could continue."""
    folder = RunFolder(path)
    has_run = folder.checkpoint.exists() or folder.previous.exists()
    if processes.any([has_run]) == [True] and processes.is_first and not has_run:
        raise TrainingError(
            f"torchrun has made another machine the first one, and {path} is not on it; "
            "put the run on a disk that all machines share, or copy it to this machine"
        )


def open_run(path: Path, device: str = "auto") -> TrainedRun:
    """Load the network of a run as it was last saved; the images are not needed."""
    folder = RunFolder(path)
    if path.is_file():
        raise TrainingError(f"{path} is a file, not the folder of a run; name the folder that the run was trained in")
    if not folder.holds_run():
        raise TrainingError(
            f"{path} is neither a run folder nor a model file; "
            f"train a run with: prunus.train('recipe.toml', {str(path)!r})"
        )
    keeps_best = not folder.recipe.exists() or stored_recipe(folder, None).training.keep == "best"
    checkpoint = read_kept(folder, keeps_best)
    recipe = stored_recipe(folder, checkpoint)
    backbone = as_trained(load_kept_backbone(folder, recipe), checkpoint)
    check_same("backbone", checkpoint.identity.backbone, fingerprint(backbone.network))
    chosen = choose_method(recipe)
    net = adapt(backbone, checkpoint.identity.classes, chosen.name, recipe.seed, chosen.options)
    copy_state(checkpoint.tensors, network_state(net))
    net = net.to(choose_device(device)).eval()
    return TrainedRun(recipe, backbone, net, checkpoint.identity.preprocess, checkpoint, path)
