"""Train methods side by side on one recipe and put them into one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from prunus.config import Recipe
from prunus.errors import RecipeError, TrainingInterrupted, UnknownNameError
from prunus.files import write_atomically, write_json
from prunus.measure.score import decathlon_score, efficiency_scores
from prunus.methods.table import METHODS, choose_method, default_weight, find_method, with_method
from prunus.recipes import parse_recipe, parse_value, recipe_differences, with_absolute_paths
from prunus.report.comparison import FORMATS
from prunus.training.folder import RunFolder
from prunus.training.observers import Observer, read_log
from prunus.training.run import check_recipe
from prunus.verbs.evaluate import Results, evaluate
from prunus.verbs.train import train_or_go_on

ALL = "all"
BASELINE, REFERENCE = "feature", "finetune"  # what S_E and S compare with
BUDGETS = (1.0, 0.75, 0.5, 0.25)

Watching = Callable[[str], Sequence[Observer]]


@dataclass(frozen=True)
class Entry:
    """One row to be: its name, which is its folder too, and what is trained for it."""

    name: str
    recipe: Recipe


def compare(  # noqa: PLR0913, PLR0917  # what to compare, and how all verbs train
    recipe: Recipe,
    out: str | Path,
    methods: Sequence[str] = (ALL,),
    budgets: Sequence[float] = BUDGETS,
    observers: Watching = lambda _title: (),
    device: str = "auto",
    use_cache: bool = True,
) -> Results:
    """Train every method, with a budget once for each of the budgets, and measure all in the same way.

    The feature extractor and fine-tuning always take part, because the scores compare with them. Called again with
    the same folder it goes on where it stopped.

    Args:
        methods: names, also with options such as `taps:sparsity=0.5` or `ba2:sharing=soft_overlap`; `all` is every one.
        observers: given the title of a training, who watches it.
    """
    folder = Path(out)
    entries = plan_comparison(with_absolute_paths(recipe, Path.cwd()), methods, budgets)
    needed_first = [entry for entry in entries if entry.name in (BASELINE, REFERENCE)]
    found: dict[str, Results] = {}
    for count, entry in enumerate([*needed_first, *(e for e in entries if e not in needed_first)], 1):
        watching = observers(f"{count}/{len(entries)} {entry.name}")
        found[entry.name] = _measured(entry, folder / entry.name, watching, device, use_cache)
        if count >= len(needed_first):  # after every method, so that a long comparison can be read while it goes on
            comparison = _tabulate([(e, found[e.name]) for e in entries if e.name in found], recipe)
            _write(folder, comparison)
    return comparison


def plan_comparison(recipe: Recipe, methods: Sequence[str], budgets: Sequence[float]) -> list[Entry]:
    """List what has to be trained, in the order of the table; everything is checked before anything is trained."""
    names = [name.strip() for name in methods for name in (METHODS if name.strip() == ALL else (name,))]
    if not names or not budgets:
        raise RecipeError("name at least one method and one budget")
    order = list(METHODS)
    names = sorted(dict.fromkeys([BASELINE, REFERENCE, *names]), key=lambda name: order.index(_check_name(name)))
    entries = []
    for name in names:
        has_budget = find_method(name.partition(":")[0]).has_budget
        entries += [_entry(recipe, name, budget) for budget in (dict.fromkeys(budgets) if has_budget else (None,))]
    for entry in entries:
        check_recipe(entry.recipe)
    return entries


def _check_name(variant: str) -> str:
    name = variant.partition(":")[0]
    if name not in METHODS:
        raise UnknownNameError("method", name, [*METHODS, ALL])
    return name


def _entry(recipe: Recipe, variant: str, budget: float | None) -> Entry:
    """Give one method's recipe: everything but the method is the same for all."""
    name, *settings = variant.split(":")
    options: dict[str, object] = {"name": name}
    content = recipe.model_dump(mode="json")
    own_loss = find_method(name).sharing is not None
    content["sharing"] = {"weight": recipe.sharing.weight} if own_loss else {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator:
            raise RecipeError(f"an option is written method:key=value, got {variant!r}; for example taps:sparsity=0.5")
        if key in ("sharing", "weight"):
            content["sharing"]["loss" if key == "sharing" else key] = parse_value(value)
        else:
            options[key] = parse_value(value)
    content["method"] = options
    if budget is not None:
        content["budget"] = budget
    label = "-".join([name, *settings, *([] if budget is None else [f"{budget:g}"])])
    return Entry(label, with_method(parse_recipe(content)))


def _measured(entry: Entry, folder: Path, watching: Sequence[Observer], device: str, use_cache: bool) -> Results:
    """Train and measure one method, unless that was done before."""
    file = folder / "results.json"
    try:
        train_or_go_on(entry.recipe, folder, watching, device, use_cache)
    except TrainingInterrupted:
        raise TrainingInterrupted(f"stopped and saved at {entry.name}; go on with the same command") from None
    if file.exists():
        results: Results = json.loads(file.read_text())
        if not recipe_differences(entry.recipe, parse_recipe(results["recipe"])):
            return results
    results = evaluate(folder, device=device, use_cache=use_cache)
    log = read_log(RunFolder(folder).log)
    results |= {"seconds": log[-1]["seconds"] if log else 0.0, "recipe": entry.recipe.model_dump(mode="json")}
    write_json(file, results)
    return results


def _tabulate(found: Sequence[tuple[Entry, Results]], recipe: Recipe) -> Results:
    by_name = {entry.name: _accuracies(results) for entry, results in found}
    finetuned = by_name[REFERENCE]
    feature_score = decathlon_score(by_name[BASELINE], finetuned)
    rows = [_row(entry, results, finetuned, feature_score) for entry, results in found]
    domains = [choice.name for choice in recipe.domains]
    settings = recipe.model_dump(mode="json", exclude={"domains", "method", "sharing", "budget"})
    return {"domains": domains, "backbone": recipe.backbone.name, "settings": settings, "rows": rows}


def _row(entry: Entry, results: Results, finetuned: Sequence[float], feature_score: float) -> dict[str, Any]:
    chosen = choose_method(entry.recipe)
    changed = chosen.options.model_dump(mode="json", exclude_defaults=True)
    if chosen.sharing != chosen.method.sharing:
        changed["sharing"] = chosen.sharing
    if chosen.sharing and chosen.weight != default_weight(chosen.sharing):
        changed["weight"] = chosen.weight
    accuracies = _accuracies(results)
    scores = efficiency_scores(
        decathlon_score(accuracies, finetuned), results["macs_ratio"], results["params_ratio"], feature_score
    )
    return {
        "name": entry.name,
        "method": chosen.name,
        "options": changed,
        "budget": results["budget"],
        "macs_ratio": results["macs_ratio"],
        "params_ratio": results["params_ratio"],
        "stored_bytes": results["stored_bytes"],
        "accuracies": {name: values["accuracy"] for name, values in results["domains"].items()},
        "mean_accuracy": results["mean_accuracy"],
        "scores": asdict(scores),
        "seconds": results["seconds"],
    }


def _accuracies(results: Results) -> list[float]:
    return [float(entry["accuracy"]) for entry in results["domains"].values()]


def _write(folder: Path, comparison: Results) -> None:
    for suffix, write in FORMATS.items():
        write_atomically(folder / f"comparison.{suffix}", write(comparison).encode())
