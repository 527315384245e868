"""Plans: what a folder holds decides what is trained, and every refusal comes before any work."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from prunus.checkpoints.checkpoint import Checkpoint, Position, write_checkpoint
from prunus.config import Recipe
from prunus.errors import DamagedFileError, RecipeError, TrainingError
from prunus.files import write_json
from prunus.methods.table import with_method
from prunus.recipes import parse_recipe, with_absolute_paths
from prunus.run_folder import RunFolder
from prunus.training.planning import plan_either, plan_resume, plan_start, stored_recipe
from tests.makers.tiny_training import tiny_identity, tiny_recipe


@pytest.fixture
def recipe() -> Recipe:
    return with_absolute_paths(with_method(tiny_recipe(training={"epochs": 2})), Path.cwd())


@pytest.fixture
def folder(recipe: Recipe, tmp_path: Path) -> RunFolder:
    """A run that was saved at steps 3 and 5 of 8."""
    files = RunFolder(tmp_path / "run")
    for step in (3, 5):
        _save(files, recipe, step)
    write_json(files.recipe, recipe.model_dump(mode="json"))
    return files


def _save(files: RunFolder, recipe: Recipe, step: int) -> None:
    position = Position(step=step, total_steps=8)
    write_checkpoint(
        files.checkpoint, Checkpoint(position, tiny_identity(recipe), {"a": torch.ones(1)}), files.previous
    )


def _step(checkpoint: Checkpoint | None) -> int:
    assert checkpoint is not None
    return checkpoint.position.step


def _longer(recipe: Recipe, epochs: int) -> Recipe:
    return recipe.model_copy(update={"training": recipe.training.model_copy(update={"epochs": epochs})})


def test_a_run_continues_from_its_newest_checkpoint(folder: RunFolder, recipe: Recipe) -> None:
    plan = plan_resume(folder.path, None)
    assert plan.recipe == recipe
    assert _step(plan.start) == 5


def test_a_checkpoint_alone_can_be_continued_because_it_holds_the_recipe(folder: RunFolder, recipe: Recipe) -> None:
    folder.recipe.unlink()
    folder.previous.unlink()
    for plan in (plan_resume(folder.path, None), plan_either(recipe, folder.path)):
        assert plan is not None
        assert plan.recipe == recipe
        assert _step(plan.start) == 5


def test_a_new_run_never_begins_where_a_checkpoint_is(folder: RunFolder, recipe: Recipe) -> None:
    for file in (folder.recipe, folder.checkpoint, folder.previous):
        with pytest.raises(TrainingError, match=r"already holds a run; continue it with: prunus\.resume"):
            plan_start(recipe, folder.path)
        file.unlink()
    assert plan_start(recipe, folder.path).start is None


def test_a_new_run_needs_a_folder_that_can_be_written_down(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"the folder .*run\\udcff is not valid UTF-8; choose another folder"):
        plan_start(recipe, tmp_path / "run\udcff")


def test_a_damaged_newest_checkpoint_is_passed_over(folder: RunFolder, recipe: Recipe) -> None:
    folder.checkpoint.write_bytes(folder.checkpoint.read_bytes()[:-1])
    for plan in (plan_resume(folder.path, None), plan_either(recipe, folder.path)):
        assert plan is not None
        assert plan.start is not None
        assert _step(plan.start) == 3
        assert plan.start.instead_of is not None
    folder.previous.unlink()
    attempts: list[Callable[[], object]] = [
        lambda: plan_resume(folder.path, None),
        lambda: plan_either(recipe, folder.path),
    ]
    for attempt in attempts:
        with pytest.raises(DamagedFileError, match=r"no previous.safetensors beside it to continue from"):
            attempt()


def test_a_folder_without_checkpoints_begins_anew_from_its_recipe(folder: RunFolder, recipe: Recipe) -> None:
    folder.checkpoint.unlink()
    folder.previous.unlink()
    assert plan_resume(folder.path, None).start is None
    assert plan_either(recipe, folder.path) == plan_resume(folder.path, None)


def test_an_empty_folder_has_nothing_to_continue(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"holds no run to resume; start one with: prunus\.train"):
        plan_resume(tmp_path, None)
    plan = plan_either(recipe, tmp_path)
    assert plan is not None
    assert plan.start is None


def test_a_finished_run_is_left_alone_until_it_is_extended(folder: RunFolder, recipe: Recipe) -> None:
    _save(folder, recipe, 8)
    assert plan_either(recipe, folder.path) is None
    write_json(folder.recipe, _longer(recipe, 3).model_dump(mode="json"))  # and killed before the next checkpoint
    plan = plan_either(_longer(recipe, 3), folder.path)
    assert plan is not None
    assert _step(plan.start) == 8


@pytest.mark.parametrize(("epochs", "is_allowed"), [(1, False), (2, True), (3, True)])
def test_a_run_may_become_longer_but_not_shorter_than_it_is(
    folder: RunFolder, recipe: Recipe, epochs: int, is_allowed: bool
) -> None:
    if is_allowed:
        assert plan_resume(folder.path, _longer(recipe, epochs)).recipe.training.epochs == epochs
        return
    with pytest.raises(TrainingError, match=r"has already trained 1.2 epochs; training.epochs must be at least that"):
        plan_resume(folder.path, _longer(recipe, epochs))


def test_another_recipe_is_refused_with_what_differs(folder: RunFolder, recipe: Recipe) -> None:
    other = recipe.model_copy(update={"seed": 7})
    with pytest.raises(TrainingError, match=r"was trained with another recipe \(seed: 0 -> 7\)"):
        plan_resume(folder.path, other)
    with pytest.raises(TrainingError, match=r"holds a run of another recipe \(seed: 0 -> 7\)"):
        plan_either(other, folder.path)
    write_json(folder.recipe, other.model_dump(mode="json"))
    message = "(seed: 7 -> 0); put the run's own files back together, or remove recipe.json to use the recipe in"
    with pytest.raises(TrainingError, match=re.escape(message)):
        plan_resume(folder.path, None)
    folder.recipe.unlink()
    assert plan_resume(folder.path, None).recipe.seed == 0


def test_the_recipe_of_a_run_is_that_of_its_file_or_of_its_checkpoint(folder: RunFolder, recipe: Recipe) -> None:
    saved = plan_resume(folder.path, None).start
    assert stored_recipe(folder, None) == recipe
    write_json(folder.recipe, _longer(recipe, 5).model_dump(mode="json"))
    assert stored_recipe(folder, saved).training.epochs == 5
    folder.recipe.write_text("{")
    with pytest.raises(RecipeError, match=r"recipe.json is not valid JSON"):
        stored_recipe(folder, saved)
    folder.recipe.unlink()
    assert stored_recipe(folder, saved).training.epochs == 2


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"name": "finetune"}, "none can hold method 'finetune'"),
        ({"name": "exact", "until": 1.0}, "set a smaller method.until"),
    ],
)
def test_rounding_that_would_be_of_no_use_is_refused(method: dict[str, object], message: str, tmp_path: Path) -> None:
    recipe = tiny_recipe(preset="auto", method=method, budget=1.0, training={"quantize": "int8"})
    with pytest.raises(RecipeError, match=message):
        plan_start(recipe, tmp_path / "run")


def test_epochs_are_not_judged_by_a_budget_that_is_not_reported(tmp_path: Path) -> None:
    content = {"backbone": "wrn14_2", "domains": ["a"], "method": {"name": "ba2", "budget_per": "layer"}}
    with pytest.raises(RecipeError, match="judge epochs by the share of all kernels, not per layer"):
        plan_start(parse_recipe(content | {"training": {"keep": "best"}}), tmp_path / "run")
