"""Train, prune, measure and use a model on the bundled domains."""

from collections.abc import Sequence
from pathlib import Path

from prunus.amounts import plural
from prunus.config import Recipe
from prunus.data.layouts import open_domain
from prunus.errors import MissingExtraError
from prunus.evaluation.classifying import classify_measurable
from prunus.evaluation.results import evaluation_of
from prunus.evaluation.run_subject import open_frozen_features
from prunus.files import write_json
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.evaluation import Demonstration, Evaluation, Example, StoredResult
from prunus.measure.score import FEATURE
from prunus.progress.choice import watch_with_progress
from prunus.recipes import load_recipe
from prunus.report.plots import write_plots
from prunus.run_folder import RunFolder
from prunus.runtime.predictor import Predictor
from prunus.samples import bundled
from prunus.training.observers import Watch
from prunus.training.run import train_or_continue
from prunus.verbs.bench import bench
from prunus.verbs.evaluate import evaluate
from prunus.verbs.prune import prune
from prunus.verbs.report import ROUNDS, write_report


def demo(
    out: str | Path = "runs/demo",
    overrides: Sequence[str] = (),
    observers: Watch | None = None,
    device: str = "auto",
    progress: bool | None = None,
) -> Demonstration:
    """Train one small model for the five bundled domains, beside classifiers on its frozen backbone.

    What other methods reach comes from stored results.

    The folder then holds the model, results.json, bench.json, plots and a report page.

    Args:
        overrides: recipe settings to change, such as `training.epochs=5`.
        observers: title of a training run -> its observers.
        progress: as in `train`.
    """
    folder = RunFolder(Path(out))
    recipe = load_recipe(bundled("recipes") / "demo.toml", overrides)
    watch = watch_with_progress(observers, progress)
    train_or_continue(recipe, folder.path, watch(f"one network for {plural(len(recipe.domains), 'domain')}"), device)
    predictor = Predictor(prune(folder.path, folder.model))
    extras = {
        "baselines": {FEATURE: _frozen_features(folder.path, device)},
        "example": _classify_example(recipe, predictor),
    }
    results = evaluate(folder.model, device=device).model_copy(update=extras)
    write_plots(folder.plots, results, bundle_costs(predictor.bundle), folder.epochs())
    write_json(folder.results, results.model_dump(mode="json"))
    write_json(folder.bench, bench(folder.model, threads=(1,), rounds=ROUNDS, accuracy=False).model_dump(mode="json"))
    more = {"stored": stored_results(), "report": _write_page(folder)}
    return Demonstration.model_validate(results.model_dump() | more)


def stored_results() -> list[StoredResult]:
    """Read what other methods reached on the domains of the demo; to train them again would take minutes."""
    return [StoredResult.model_validate_json(path.read_bytes()) for path in sorted(bundled("results").glob("*.json"))]


def _frozen_features(path: Path, device: str) -> Evaluation:
    """Measure the classifiers that the run has fitted to the frozen backbone."""
    subject = open_frozen_features(path, device)
    return evaluation_of(subject, "test", classify_measurable(subject, "test"))


def _write_page(folder: RunFolder) -> str | None:
    try:
        return str(write_report(folder.path, folder.report).page)
    except MissingExtraError:
        return None


def _classify_example(recipe: Recipe, predictor: Predictor) -> Example:
    domain = open_domain(recipe.domains[-1])
    item = domain.test[0]
    (result,) = predictor.predict(domain.source.read(item.file), domain.name, top=3)
    truth = domain.classes[item.label]
    return Example(domain=domain.name, file=item.file, truth=truth, predictions=result.predictions)
