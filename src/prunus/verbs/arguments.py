"""What public functions accept for a recipe, a run folder, a model file, and a user's network and data."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from prunus.backbone.own.registry import passing
from prunus.config import PYTHON_POLICY, PYTHON_PREFIX, DomainChoice, Recipe
from prunus.data.own.domain import OwnDomain, PairDataset
from prunus.data.own.passing import passing_domains
from prunus.errors import BundleError, RecipeError, TrainingError, similar_names
from prunus.files import as_path
from prunus.names import domain_name_problem
from prunus.recipes import load_recipe, load_stored_recipe
from prunus.run_folder import RunFolder
from prunus.runtime.predictor import Predictor

if TYPE_CHECKING:
    from torch import Tensor, nn

MOST_RUNS = 20  # keeps an error short
RecipeLike: TypeAlias = Recipe | str | os.PathLike[str]
ModelLike: TypeAlias = Predictor | str | os.PathLike[str]
Domains: TypeAlias = Mapping[str, OwnDomain | PairDataset]
Transform: TypeAlias = "Callable[[Tensor], Tensor]"


def as_recipe(recipe: object) -> Recipe:
    """Return a recipe, or read the file that a caller named instead of it."""
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(recipe, (str, os.PathLike)):
        raise RecipeError(
            f"a recipe must be the path of a TOML file or a prunus.Recipe, got {reprlib.repr(recipe)}; "
            "prunus.parse_recipe makes a recipe of a dictionary"
        )
    return load_recipe(Path(os.fspath(recipe)))


def run_folder_for(recipe: object, out: object) -> Path:
    """Return the folder of a new run: `runs/NAME` for the recipe file NAME.toml, unless the caller names one."""
    if out is None and isinstance(recipe, Recipe):
        raise RecipeError("name the folder of the new run, as in prunus.train(recipe, 'runs/first')")
    return Path("runs") / as_path(recipe, "a recipe").stem if out is None else as_path(out, "the folder of a run")


def check_run_or_file(path: Path) -> None:
    """Refuse a path at which there is nothing to open, or a folder of several runs, and name what may be meant."""
    if not path.exists():
        beside = [str(entry) for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = similar_names(str(path), beside)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BundleError(f"there is no run and no model file {path}{hint}")
    folders = sorted(path.iterdir()) if path.is_dir() and not RunFolder(path).holds_run() else []
    if runs := [str(folder) for folder in folders if RunFolder(folder).holds_run()]:
        raise TrainingError(f"{path} is a folder of runs; name one of them: {', '.join(runs[:MOST_RUNS])}")


def model_path(model: object) -> Path:
    """Return the path of a model file, or that of the file that a predictor has loaded."""
    return model.path if isinstance(model, Predictor) else as_path(model, "a model file")


@dataclass(frozen=True)
class Own:
    """A user's network, domains and transform, as a caller has passed them."""

    backbone: nn.Module | None = None
    domains: Domains | None = None
    transform: Transform | None = None

    def in_recipe(self, recipe: Recipe) -> Recipe:
        """Add domains and the transform to a recipe that does not name them yet."""
        known = {choice.name: choice for choice in recipe.domains}
        names = {choice.path.removeprefix(PYTHON_PREFIX) for choice in recipe.domains if _is_passed(choice)}
        new = [name for name in self.domains or () if name not in names]
        for name in new:
            if problem := domain_name_problem(name):
                raise RecipeError(problem)
            if name in known:
                where = known[name].path
                raise RecipeError(f"the recipe has a domain {name!r} at {where}; pass yours under another name")
        added = tuple(DomainChoice(name=name, path=f"{PYTHON_PREFIX}{name}") for name in new)
        training = recipe.training
        if self.transform is not None and PYTHON_POLICY not in training.augment:
            training = training.model_copy(update={"augment": (*training.augment, PYTHON_POLICY)})
        return recipe.model_copy(update={"domains": (*recipe.domains, *added), "training": training})

    @contextmanager
    def passed(self, name: str | None) -> Iterator[None]:
        """Let them be found until the end of a call.

        Args:
            name: of the network in the recipe; None for any.
        """
        with ExitStack() as stack:
            stack.enter_context(passing(name, self.backbone))
            stack.enter_context(passing_domains(self.domains))
            if self.transform is not None:
                from prunus.data.own.transforms import passing_transform  # noqa: PLC0415  # needs torch

                stack.enter_context(passing_transform(self.transform))
            yield

    def passed_to(self, run: Path) -> AbstractContextManager[None]:
        """Let them be found while a run is opened or continued."""
        file = RunFolder(run).recipe
        is_needed = self.backbone is not None and file.is_file()
        return self.passed(load_stored_recipe(file).backbone.name if is_needed else None)


def _is_passed(choice: DomainChoice) -> bool:
    return choice.path.startswith(PYTHON_PREFIX)
