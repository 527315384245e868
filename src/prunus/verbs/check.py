"""Check image data before training."""

from dataclasses import replace
from pathlib import Path

from prunus.benchmarks import find_benchmark
from prunus.config import DomainChoice, Recipe, Training
from prunus.data.checks import BENCHMARK_CHECKS, CheckReport, DomainSummary, OnImage, check_folders
from prunus.data.folders.finding import Place, find_domains
from prunus.data.layouts import open_domain
from prunus.errors import DataError, RecipeError
from prunus.recipes import load_recipe
from prunus.verbs.arguments import Domains, Own

RECIPES = (".toml", ".json")


def check(
    path: Recipe | str | Path,
    benchmark: str | None = None,
    on_image: OnImage = lambda: None,
    *,
    domains: Domains | None = None,
) -> CheckReport:
    """Check a domain (a folder or zip file), a folder of domains, the domains of a recipe, or a benchmark.

    Every image is decoded. An unreadable image is an error, unless the recipe skips such images.

    Args:
        benchmark: the name of the benchmark that the folder holds.
        on_image: called for every image.
        domains: as in `train`, with a recipe.
    """
    if isinstance(path, Recipe):
        return _check_recipe(path, on_image, domains)
    if Path(path).suffix.lower() in RECIPES and not Path(path).is_dir():
        return _check_recipe(load_recipe(path), on_image, domains)
    if domains is not None:
        raise RecipeError("domains from Python are checked with a recipe; pass the recipe or its file first")
    if benchmark is None:
        return check_folders(find_domains(path), None, on_image)
    return _check_benchmark(path, benchmark, on_image)


def _check_recipe(recipe: Recipe, on_image: OnImage, domains: Domains | None) -> CheckReport:
    if recipe.benchmark and recipe.root:
        report = _check_benchmark(recipe.root, recipe.benchmark, on_image)
        beside = recipe.model_copy(update={"domains": tuple(d for d in recipe.domains if d.layout == "folders")})
        return report + check_folders(_places(beside), None, on_image) if beside.domains else report
    own = Own(domains=domains)
    with own.passed(None):
        whole = own.in_recipe(recipe)
        report = check_folders(_places(whole), None, on_image)
        choices = {choice.name: choice for choice in whole.domains}
        counted = [_as_trained(summary, choices[summary.name], recipe.training) for summary in report.domains]
        return replace(report, domains=tuple(counted))


def _as_trained(summary: DomainSummary, choice: DomainChoice, training: Training) -> DomainSummary:
    """Count images as training splits them; a domain that it would refuse keeps the numbers of its folders."""
    try:
        domain = open_domain(choice, training.validation_share)
    except DataError:
        return summary
    sizes = {split: len(domain.split(split)) for split in (training.splits, "validation", "test")}
    trained = {"train": sizes.pop(training.splits)}
    if training.splits != "train":
        del sizes["validation"]
    return replace(summary, images=trained | {split: size for split, size in sizes.items() if size})


def _check_benchmark(root: str | Path, benchmark: str, on_image: OnImage) -> CheckReport:
    known = find_benchmark(benchmark)
    return BENCHMARK_CHECKS[known.name](Path(root), known, on_image)


def _places(recipe: Recipe) -> list[Place]:
    return [
        Place(
            choice.name,
            choice.path,
            folder=choice.name,
            test_share=choice.test_share,
            split_seed=choice.split_seed,
            skips_bad=recipe.skip_bad_images,
        )
        for choice in recipe.domains
    ]
