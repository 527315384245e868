"""One trial: a planned training run, trained and measured in its folder unless that is done already."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.comparison.plan import Entry
from prunus.errors import RecipeError
from prunus.evaluation.classifying import classify_measurable
from prunus.evaluation.results import evaluation_of
from prunus.evaluation.saved import read_saved, save_results
from prunus.evaluation.subject import open_subject
from prunus.measure.evaluation import Evaluation
from prunus.presets import of_any_version
from prunus.recipes import parse_recipe, recipe_differences
from prunus.run_folder import RunFolder
from prunus.timing.dense import file_warning
from prunus.training.observers import Observer, Observers
from prunus.training.run import train_or_continue
from prunus.training.settling import settled_like


@dataclass(frozen=True)
class Trial:
    """A planned training run, and where and how it is trained.

    Args:
        folder: of all trials; each has a folder of its name there.
        title: shown while it is trained.
    """

    entry: Entry
    folder: Path
    split: str
    device: str
    use_cache: bool
    title: str = ""

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return self.entry.name

    @property
    def files(self) -> RunFolder:
        """Return its run folder."""
        return RunFolder(self.folder / self.entry.name)

    def finished(self) -> Evaluation | None:
        """Return the results of an earlier training run if they are of the same recipe and split."""
        results = read_saved(self.files)
        if results is None:
            return None
        try:
            trained = parse_recipe(of_any_version(results.recipe or {}))
        except RecipeError:
            return None
        differs = recipe_differences(settled_like(self.entry.recipe, trained), trained)
        return None if differs or results.split != self.split else results

    def run(self, observers: Sequence[Observer]) -> None:
        """Train or continue, measure, and write the results."""
        files = self.files
        recipe = self.entry.recipe
        if not files.recipe.exists() and (warning := file_warning(recipe)):
            Observers(observers).noted(warning)
        train_or_continue(recipe, files.path, observers, self.device, self.use_cache)
        subject = open_subject(files.path, self.device)
        results = evaluation_of(subject, self.split, classify_measurable(subject, self.split, use_cache=self.use_cache))
        save_results(files, results, settled_like(recipe, subject.recipe))
