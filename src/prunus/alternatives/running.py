"""Make and measure all alternatives of a recipe; what is finished already is not made again."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from prunus.alternatives.alternative import Shipped, Task
from prunus.alternatives.measuring import Key, Measured, load_runs, measure_answers, time_runs, total_bytes
from prunus.alternatives.table import ALTERNATIVES
from prunus.config import Budget, Recipe
from prunus.errors import BackboneError, BundleError, MissingExtraError, TrainingInterrupted, UnknownNameError
from prunus.evaluation.subject import open_subject
from prunus.files import write_json
from prunus.measure.alternatives.results import OURS, Versus, VersusRow
from prunus.measure.result import Result
from prunus.recipes import TRAINED_FIRST, load_stored_recipe, recipe_differences
from prunus.run_folder import RunFolder
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine
from prunus.timing.sessions import Run
from prunus.training.observers import Observers, Watch
from prunus.training.run import open_run, train_or_continue

AnyResult = TypeVar("AnyResult", bound=Result)
PACKAGES = ("prunus", "torch", "onnxruntime", "peft", "torch-pruning")  # whose versions are recorded
UNFIT = (BackboneError, BundleError)  # an alternative that does not fit a network


@dataclass(frozen=True)
class Row:
    """An alternative with one budget and one seed.

    Args:
        folder: of its own files.
        trained: the folder of our run with its budget and seed.
        teacher: the networks that taught our first run, if they teach this one too.
    """

    name: str
    alternative: str
    recipe: Recipe
    folder: Path
    trained: Path
    teacher: Path | None = None

    def to_train(self) -> Recipe:
        """Return the recipe with the teacher that is there already.

        The row's own recipe does not name its folder: if that was moved, the row would be another one.
        """
        if self.teacher is None or not RunFolder(self.teacher).read_ending():
            return self.recipe
        teacher = str(self.teacher.resolve())
        begun = RunFolder(self.trained).recipe
        stored = load_stored_recipe(begun).teacher if begun.exists() else None
        if stored == TRAINED_FIRST or (stored and Path(stored).parts[-3:] == Path(teacher).parts[-3:]):
            teacher = stored  # of an earlier version, or before the folder was moved
        return self.recipe.model_copy(update={"teacher": teacher})

    @property
    def title(self) -> str:
        """Say what it is."""
        title = ALTERNATIVES[self.alternative].title
        return title if self.name == self.alternative else f"{title}, {self.recipe.budget}"


@dataclass(frozen=True)
class Comparing:
    """How alternatives are made and measured."""

    watch: Watch
    device: str
    use_cache: bool
    split: str
    rounds: int

    def run(self, recipe: Recipe, rows: Sequence[Row]) -> Versus:
        """Make and measure what is not finished, then time everything together."""
        failed: dict[str, str] = {}
        done: dict[tuple[str, int], tuple[Row, Shipped, Measured]] = {}
        for number, row in enumerate(rows, 1):
            try:
                done[row.name, row.recipe.seed] = row, *self._measured(row, f"{number}/{len(rows)} {row.name}")
            except UNFIT as error:
                if row.alternative.startswith(OURS):
                    raise
                failed[row.name] = str(error)
            except (TrainingInterrupted, KeyboardInterrupt):
                raise TrainingInterrupted(
                    f"at {row.name}; finished alternatives are saved: continue with the same command"
                ) from None
        return self._together(recipe, list(done.values()), failed)

    def _measured(self, row: Row, title: str) -> tuple[Shipped, Measured]:
        shipped = read(row.folder / "shipped.json", Shipped)
        measured = read(row.folder / "measured.json", Measured)
        is_same = shipped is not None and not _differs(row.recipe, shipped.recipe)
        if shipped is not None and measured is not None and is_same and measured.split == self.split:
            return shipped, measured
        task = self._task(row, title)
        if shipped is None or not is_same:
            shipped = ALTERNATIVES[row.alternative].make(task).model_copy(update={"recipe": row.recipe})
            write_json(row.folder / "shipped.json", shipped.model_dump(mode="json"))
        runs = load_runs(row.folder, shipped)
        measured = measure_answers(task.subject, runs, self.split, self.use_cache)
        write_json(row.folder / "measured.json", measured.model_dump(mode="json"))
        return shipped, measured

    def _task(self, row: Row, title: str) -> Task:
        """Train ours unless it is trained, and open it."""
        observers = self.watch(title)
        train_or_continue(row.to_train(), row.trained, observers, self.device, self.use_cache)
        ours = open_run(row.trained, "cpu")
        subject = open_subject(row.trained, "cpu")
        return Task(ours.recipe, row.folder, ours, subject, Observers(observers), self.device, self.use_cache)

    def _together(
        self, recipe: Recipe, done: Sequence[tuple[Row, Shipped, Measured]], failed: dict[str, str]
    ) -> Versus:
        runs: dict[Key, Run] = {}
        for row, shipped, _ in done:
            loaded = load_runs(row.folder, shipped, threads=1)
            runs |= {(row.name, row.recipe.seed, domain): run for domain, run in loaded.items()}
        predictor = next(
            Predictor(row.folder / shipped.counted[0]) for row, shipped, _ in done if row.alternative.startswith(OURS)
        )
        timings = time_runs(runs, predictor.bundle.manifest.image_size, self.rounds)
        return Versus(
            backbone=recipe.backbone.name,
            split=self.split,
            titles={row.name: row.title for row, _, _ in done},
            images=done[0][2].images,
            machine=describe_machine(),
            prunus_engine=predictor.engine,
            versions={name: found for name in PACKAGES if (found := _version(name))},
            settings=recipe.model_dump(mode="json", exclude={"domains", "seed"}),
            source=recipe.source,
            rows=tuple(
                VersusRow(
                    name=row.name,
                    seed=row.recipe.seed,
                    accuracies=measured.accuracies,
                    correct=measured.correct,
                    total_bytes=total_bytes(row.folder, shipped),
                    macs=shipped.macs,
                    latencies={domain: timings[row.name, row.recipe.seed, domain] for domain in shipped.answering},
                )
                for row, shipped, measured in done
            ),
            failed=failed,
        )


def plan_rows(
    recipe: Recipe, folder: Path, only: Sequence[str], budgets: Sequence[float], seeds: Sequence[int]
) -> list[Row]:
    """List the rows to make: for every seed, each alternative once, or once per budget if it has one."""
    for name in only:
        if name not in ALTERNATIVES:
            raise UnknownNameError("alternative", name, ALTERNATIVES)
    chosen = [name for name in ALTERNATIVES if not only or name in only or name.startswith(OURS)]
    _check_packages(chosen)
    choices = [recipe.budget, *(Budget(kernels=share) for share in budgets if share != recipe.budget.only_kernels)]
    return [
        row
        for seed in dict.fromkeys(seeds or (recipe.seed,))
        for name in chosen
        for row in _of_budgets(recipe.model_copy(update={"seed": seed}), folder / f"seed{seed}", name, choices)
    ]


def _of_budgets(recipe: Recipe, folder: Path, name: str, budgets: Sequence[Budget]) -> Iterator[Row]:
    first = folder / "trained"
    for budget in budgets if ALTERNATIVES[name].has_budget else budgets[:1]:
        suffix = "" if budget == recipe.budget else f"-{budget.label}"
        changed = recipe.model_copy(update={"budget": budget})
        teacher = RunFolder(first).teacher if suffix and recipe.teacher == TRAINED_FIRST else None
        yield Row(f"{name}{suffix}", name, changed, folder / f"{name}{suffix}", folder / f"trained{suffix}", teacher)


def _check_packages(names: Sequence[str]) -> None:
    """Refuse to begin without a package that some alternative will need."""
    for package in dict.fromkeys(package for name in names for package in ALTERNATIVES[name].packages):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package.replace("_", "-"), "versus", "this comparison")


def read(path: Path, kind: type[AnyResult]) -> AnyResult | None:
    """Read what an earlier call has written; None if there is nothing that can be read."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _differs(ours: Recipe, theirs: Recipe) -> bool:
    return bool(recipe_differences(ours, theirs))


def _version(package: str) -> str | None:
    try:
        return version(package).partition("+")[0]
    except PackageNotFoundError:
        return None
