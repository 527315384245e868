"""The main job on bundled data: train, prune, measure, use, and show the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from prunus.config import Recipe
from prunus.data.layouts import open_domain
from prunus.errors import MissingExtraError
from prunus.files import write_json
from prunus.measure.evaluation import Demonstration, Example, Guess
from prunus.recipes import load_recipe
from prunus.report.plots import write_plots
from prunus.run_folder import RunFolder
from prunus.runtime.predictor import Predictor
from prunus.samples import bundled
from prunus.training.observers import Observer
from prunus.verbs.bench import bench
from prunus.verbs.evaluate import bundle_costs, evaluate
from prunus.verbs.prune import prune
from prunus.verbs.report import write_report
from prunus.verbs.train import train_or_go_on

BASELINE = "feature"
ROUNDS = 20  # of the benchmark: enough for a median of milliseconds


def demo(
    out: str | Path = "runs/demo",
    overrides: Sequence[str] = (),
    observers: Callable[[str], Sequence[Observer]] = lambda _title: (),
    device: str = "auto",
) -> Demonstration:
    """Make one small model for the five bundled domains, beside a feature extractor trained equally long.

    The folder then holds the model, results.json, bench.json, plots and a page about all of it; "report" in what is
    given back says where the page is, None where the packages for it are missing.

    Args:
        overrides: recipe settings to change, such as `training.epochs=5`.
        observers: given the title of a training, who watches it.
    """
    folder = Path(out)
    recipe = load_recipe(bundled("recipes") / "demo.toml", overrides)
    baseline = Recipe.model_validate(recipe.model_dump(exclude={"sharing"}) | {"method": BASELINE})
    train_or_go_on(
        baseline, folder / BASELINE, observers("baseline: frozen features, one classifier per domain"), device
    )
    train_or_go_on(recipe, folder, observers(f"one network for {len(recipe.domains)} domains"), device)
    model = prune(folder, folder / "model.prunus")
    predictor = Predictor(model)
    added = {
        "baselines": {BASELINE: evaluate(folder / BASELINE, device=device)},
        "example": _predict_example(recipe, predictor),
    }
    results = evaluate(model, device=device).model_copy(update=added)
    costs = bundle_costs(predictor.bundle, has_switches=True)
    write_plots(folder / "plots", results, costs, RunFolder(folder).epochs())
    write_json(folder / "results.json", results.model_dump(mode="json"))
    write_json(folder / "bench.json", bench(model, threads=(1,), rounds=ROUNDS).model_dump(mode="json"))
    return Demonstration.model_validate(results.model_dump() | {"report": _write_page(folder)})


def _write_page(folder: Path) -> str | None:
    try:
        return str(write_report(folder, folder / "report.html").page)
    except MissingExtraError:
        return None


def _predict_example(recipe: Recipe, predictor: Predictor) -> Example:
    domain = open_domain(recipe.domains[-1])
    item = domain.test[0]
    found = predictor.predict(domain.source.read(item.file), domain.name, top=3)
    return Example(
        domain=domain.name,
        file=item.file,
        truth=domain.classes[item.label],
        predictions=tuple(Guess(label=each.label, probability=each.probability) for each in found),
    )
