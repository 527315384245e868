"""Train and measure the methods of a comparison one after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from prunus.comparison.plan import REQUIRED, Entry
from prunus.errors import BackboneError, RecipeError, TrainingError, TrainingInterrupted
from prunus.evaluation.classifying import classify_domains
from prunus.evaluation.results import evaluation_of
from prunus.evaluation.subject import open_subject
from prunus.files import write_json
from prunus.measure.evaluation import Evaluation
from prunus.recipes import parse_recipe, recipe_differences
from prunus.run_folder import RunFolder
from prunus.timing.dense import file_warning
from prunus.training.observers import Observer, Observers
from prunus.training.run import train_or_continue

Watch = Callable[[str], Sequence[Observer]]  # title of a training run -> who observes it


@dataclass(frozen=True)
class Outcome:
    """The results of a comparison so far.

    Args:
        results: name of a row -> what was measured.
        failed: name of a row -> why it could not be trained.
    """

    results: dict[str, Evaluation]
    failed: dict[str, str]


@dataclass(frozen=True)
class Trials:
    """The methods to train, and where and how."""

    entries: Sequence[Entry]
    folder: Path
    split: str
    device: str
    use_cache: bool

    def run(self, watch: Watch) -> Iterator[Outcome]:
        """Train what is not finished, required rows first, and return the outcome after each."""
        results = {entry.name: done for entry in self.entries if (done := self.finished(entry)) is not None}
        failed: dict[str, str] = {}
        ordered = sorted(self.entries, key=lambda entry: entry.name not in REQUIRED)
        for number, entry in enumerate(ordered, 1):
            try:
                if entry.name not in results:
                    results[entry.name] = self._run(entry, watch(f"{number}/{len(ordered)} {entry.name}"))
            except (TrainingInterrupted, KeyboardInterrupt):
                raise TrainingInterrupted(
                    f"at {entry.name}; finished work is saved: continue with the same command"
                ) from None
            except (TrainingError, BackboneError) as error:
                if entry.name in REQUIRED:
                    raise
                failed[entry.name] = str(error)
            yield Outcome(results, failed)

    def finished(self, entry: Entry) -> Evaluation | None:
        """Return the results of an earlier training run if they are of the same recipe and split."""
        try:
            results = Evaluation.model_validate_json(self._files(entry).results.read_bytes())
            same = results.recipe and not recipe_differences(entry.recipe, parse_recipe(results.recipe))
        except (OSError, ValidationError, RecipeError):
            return None
        return results if same and results.split == self.split else None

    def _run(self, entry: Entry, observers: Sequence[Observer]) -> Evaluation:
        files = self._files(entry)
        if not files.recipe.exists() and (warning := file_warning(entry.recipe)):
            Observers(observers).noted(warning)
        train_or_continue(entry.recipe, files.path, observers, self.device, self.use_cache)
        subject = open_subject(files.path, self.device)
        results = evaluation_of(subject, self.split, classify_domains(subject, self.split, use_cache=self.use_cache))
        epochs = files.epochs()
        seconds = epochs[-1].seconds if epochs else 0.0
        results = results.model_copy(update={"seconds": seconds, "recipe": entry.recipe.model_dump(mode="json")})
        write_json(files.results, results.model_dump(mode="json"))
        return results

    def _files(self, entry: Entry) -> RunFolder:
        return RunFolder(self.folder / entry.name)
