"""Check image data before training."""

from pathlib import Path

from prunus.benchmarks import find_benchmark
from prunus.config import Recipe
from prunus.data.checks import BENCHMARK_CHECKS, CheckReport, OnImage, check_folders
from prunus.data.folders.finding import Place, find_domains
from prunus.recipes import load_recipe

RECIPES = (".toml", ".json")


def check(path: str | Path, benchmark: str | None = None, on_image: OnImage = lambda: None) -> CheckReport:
    """Check a domain (a folder or zip file), a folder of domains, the domains of a recipe, or a benchmark.

    Every image is decoded. An unreadable image is an error, unless the recipe skips such images.

    Args:
        benchmark: the name of the benchmark that the folder holds.
        on_image: called for every image.
    """
    recipe = load_recipe(path) if Path(path).suffix.lower() in RECIPES and Path(path).is_file() else None
    if recipe and not recipe.benchmark:
        return check_folders(_places(recipe), None, on_image)
    if recipe and recipe.root:
        path, benchmark = recipe.root, recipe.benchmark
    if benchmark is None:
        return check_folders(find_domains(path), None, on_image)
    known = find_benchmark(benchmark)
    return BENCHMARK_CHECKS[known.name](Path(path), known, on_image)


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
