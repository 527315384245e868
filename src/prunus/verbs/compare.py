"""Train methods side by side on one recipe and put them into one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue, ValidationError

from prunus.backbone.zoo import load_backbone
from prunus.config import Recipe
from prunus.data.domains import SPLITS, UNLABELLED
from prunus.data.layouts import open_domain
from prunus.errors import (
    BackboneError,
    DataError,
    RecipeError,
    TrainingError,
    TrainingInterrupted,
    UnknownNameError,
)
from prunus.files import write_atomically, write_json
from prunus.losses.sharing import PENALTIES
from prunus.measure.comparison import Comparison, ComparisonRow
from prunus.measure.evaluation import Evaluation
from prunus.measure.score import decathlon_score, efficiency_scores
from prunus.methods.table import METHODS, adapt, choose_method, default_weight, with_method
from prunus.recipes import parse_recipe, parse_value, recipe_differences, with_absolute_paths
from prunus.report.comparison import FORMATS
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.training.run import check_recipe
from prunus.verbs.evaluate import evaluate
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
    methods: str | Sequence[str] = ALL,
    budgets: Sequence[float] = BUDGETS,
    observers: Watching = lambda _title: (),
    device: str = "auto",
    use_cache: bool = True,
    split: str = "test",
) -> Comparison:
    """Train every method, with a budget once for each of the budgets, and measure all in the same way.

    The feature extractor and fine-tuning always take part, because the scores compare with them. Called again with
    the same folder it goes on where it stopped. A method that cannot be trained is named under "failed".

    Args:
        methods: names, also with options such as `taps:sparsity=0.5` or `ba2:sharing=soft_overlap`; `all` is every one.
        observers: given the title of a training, who watches it.
        split: what is measured on; "validation" where test images have no labels.
    """
    folder, recipe = Path(out), with_absolute_paths(recipe, Path.cwd())
    if folder.is_file():
        raise RecipeError(f"{folder} is a file; name a folder for the comparison")
    entries = plan_comparison(recipe, [methods] if isinstance(methods, str) else methods, budgets)
    _check_data(recipe, split)
    trials = {entry.name: _Trial(entry, folder / entry.name, split) for entry in entries}
    found = {name: results for name, trial in trials.items() if (results := trial.finished()) is not None}
    failed: dict[str, str] = {}
    needed = [name for name in trials if name in (BASELINE, REFERENCE)]
    for count, name in enumerate([*needed, *(name for name in trials if name not in needed)], 1):
        try:
            if name not in found:
                found[name] = trials[name].run(observers(f"{count}/{len(entries)} {name}"), device, use_cache)
        except (TrainingInterrupted, KeyboardInterrupt):
            raise TrainingInterrupted(f"at {name}; what was done is saved: go on with the same command") from None
        except (TrainingError, BackboneError) as error:
            if name in needed:
                raise
            failed[name] = str(error)
        if all(each in found for each in needed):  # so that a long comparison can be read while it goes on
            rows = [(trials[each].entry, found[each]) for each in trials if each in found]
            comparison = _tabulate(rows, recipe, split, failed)
            _write(folder, comparison)
    return comparison


def plan_comparison(recipe: Recipe, methods: Sequence[str], budgets: Sequence[float]) -> list[Entry]:
    """List what has to be trained, in the order of the table; all methods are built once before any is trained."""
    named = [name.strip() for each in methods for name in each.split(",") if name.strip()]
    if not named or not budgets:
        raise RecipeError("name at least one method and one budget")
    if recipe.sharing.loss in PENALTIES:
        raise RecipeError(
            f"a comparison takes the loss from its methods; name it there, as in ba2:sharing={recipe.sharing.loss}"
        )
    variants = [_split(name) for each in named for name in (METHODS if each == ALL else (each,))]
    variants = sorted([(BASELINE, {}), (REFERENCE, {}), *variants], key=lambda variant: list(METHODS).index(variant[0]))
    entries: dict[str, Entry] = {}
    for name, settings in variants:
        for budget in budgets if METHODS[name].has_budget else (None,):
            entry = _entry(recipe, name, settings, budget)
            entries[entry.name] = entry
    backbone = load_backbone(recipe.backbone)
    for entry in entries.values():
        check_recipe(entry.recipe)
        chosen = choose_method(entry.recipe)
        adapt(backbone, {"domain": ("a", "b")}, chosen.name, options=chosen.options)
    return list(entries.values())


def _split(variant: str) -> tuple[str, dict[str, str]]:
    """Split taps:sparsity=0.5 into a name and settings."""
    name, *settings = (part.strip() for part in variant.split(":"))
    if name not in METHODS:
        raise UnknownNameError("method", name, [*METHODS, ALL])
    found: dict[str, str] = {}
    for setting in settings:
        key, separator, value = (part.strip() for part in setting.partition("="))
        if not separator or key in found or key in ("name", "budget"):
            raise RecipeError(
                f"an option is written method:key=value, once each, got {variant!r}; for example taps:sparsity=0.5 "
                "(budgets go into --budgets)"
            )
        found[key] = value
    return name, found


def _entry(recipe: Recipe, name: str, settings: Mapping[str, str], budget: float | None) -> Entry:
    """Give one method's recipe: everything but the method is the same for all."""
    values = {key: parse_value(value) for key, value in settings.items()}
    content = recipe.model_dump(mode="json", exclude={"method", "sharing", "budget"})
    sharing = {"loss" if key == "sharing" else key: values.pop(key) for key in ("sharing", "weight") if key in values}
    if recipe.sharing.loss in (None, METHODS[name].sharing) and METHODS[name].sharing:
        sharing = {"weight": recipe.sharing.weight} | sharing
    if "granularity" not in METHODS[name].options.model_fields:
        del content["granularity"]
    content |= {"method": {"name": name, **values}, "sharing": sharing} | ({} if budget is None else {"budget": budget})
    chosen = with_method(parse_recipe(content))
    shown = [f"{key}={value}" for key, value in _changed_options(chosen).items()]
    return Entry("-".join([name, *shown, *([] if budget is None else [f"{budget:.12g}"])]), chosen)


def _check_data(recipe: Recipe, split: str) -> None:
    """Refuse, before anything is trained, domains that cannot be measured."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    for choice in recipe.domains:
        items = open_domain(choice, recipe.training.validation_share).split(split)
        if not items or any(item.label == UNLABELLED for item in items):
            raise DataError(
                f"the {split} images of {choice.name!r} are missing or have no labels; use --split validation"
            )


@dataclass(frozen=True)
class _Trial:
    """One method on its way into the table."""

    entry: Entry
    folder: Path
    split: str

    @property
    def file(self) -> Path:
        return self.folder / "results.json"

    def finished(self) -> Evaluation | None:
        """Return the results of an earlier training run, if they are of this recipe."""
        try:
            results = Evaluation.model_validate_json(self.file.read_bytes())
            same = results.recipe and not recipe_differences(self.entry.recipe, parse_recipe(results.recipe))
        except (OSError, ValidationError, RecipeError):
            return None
        return results if same and results.split == self.split else None

    def run(self, watching: Sequence[Observer], device: str, use_cache: bool) -> Evaluation:
        """Train, or continue, and measure."""
        train_or_go_on(self.entry.recipe, self.folder, watching, device, use_cache)
        results = evaluate(self.folder, self.split, device=device, use_cache=use_cache)
        epochs = RunFolder(self.folder).epochs()
        content = self.entry.recipe.model_dump(mode="json")
        results = results.model_copy(update={"seconds": epochs[-1].seconds if epochs else 0.0, "recipe": content})
        write_json(self.file, results.model_dump(mode="json"))
        return results


def _changed_options(recipe: Recipe) -> dict[str, JsonValue]:
    """List the options, and the sharing loss, in which a method differs from its row of the table."""
    chosen = choose_method(recipe)
    changed = chosen.options.model_dump(mode="json", exclude_defaults=True)
    if chosen.sharing != chosen.method.sharing:
        changed["sharing"] = chosen.sharing
    if chosen.sharing and chosen.weight != default_weight(chosen.sharing):
        changed["weight"] = chosen.weight
    return changed


def _tabulate(
    found: Sequence[tuple[Entry, Evaluation]], recipe: Recipe, split: str, failed: dict[str, str]
) -> Comparison:
    by_name = {entry.name: _accuracies(results) for entry, results in found}
    finetuned = by_name[REFERENCE]
    feature_score = decathlon_score(by_name[BASELINE], finetuned)
    return Comparison(
        domains=tuple(choice.name for choice in recipe.domains),
        backbone=recipe.backbone.name,
        split=split,
        settings=recipe.model_dump(mode="json", exclude={"domains", "method", "sharing", "budget"}),
        rows=tuple(_row(entry, results, finetuned, feature_score) for entry, results in found),
        failed=dict(failed),
    )


def _row(entry: Entry, results: Evaluation, finetuned: Sequence[float], feature_score: float) -> ComparisonRow:
    score = decathlon_score(_accuracies(results), finetuned)
    return ComparisonRow(
        name=entry.name,
        method=results.method,
        options=_changed_options(entry.recipe),
        budget=results.budget,
        largest_usage=results.largest_usage,
        union=results.union,
        macs_ratio=results.macs_ratio,
        params_ratio=results.params_ratio,
        stored_bytes=results.stored_bytes,
        accuracies=results.accuracies,
        mean_accuracy=results.mean_accuracy,
        scores=efficiency_scores(score, results.macs_ratio, results.params_ratio, feature_score),
        seconds=results.seconds,
    )


def _accuracies(results: Evaluation) -> list[float]:
    return list(results.accuracies.values())


def _write(folder: Path, comparison: Comparison) -> None:
    for suffix, write in FORMATS.items():
        write_atomically(folder / f"comparison.{suffix}", write(comparison).encode())
