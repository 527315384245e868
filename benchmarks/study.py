"""Train and measure the runs that test the claims of the paper; docs/study.md and docs/study-demo.md show them.

    python -m benchmarks.study DATA [--device cuda] [--seconds N] [--only NAME] [--list]
    python -m benchmarks.study --study demo [--device cpu] [--seconds N] [--only NAME] [--list]
    python -m benchmarks.study_page

The study "nine" needs DATA, which holds one folder or zip file per domain. The study "demo" takes the bundled images
and a small network, and needs no GPU. Every finished run is a JSON file in --out. Runs that have one are not
trained again, so the command can be stopped and called again at any time. It refuses to start beside stored runs whose
recipe is not that of the grid any more. With --seconds it begins no run that would
end later. All runs share one process, and images are decoded once. Several of these commands at once share the runs:
each takes the next one that no other has begun. Run folders are removed unless --keep is given.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from filelock import FileLock, Timeout

import prunus
from benchmarks.studies import NINE, STUDIES, Study, planned
from benchmarks.study_checks import portable, refuse_stale, stale
from benchmarks.study_grid import GRID
from benchmarks.study_recipes import recipe_of
from benchmarks.study_results import Runs, StudyRun, file_of, read_runs, write_run
from prunus.config import Recipe
from prunus.data.layouts import open_domain
from prunus.timing.machine import describe_machine
from prunus.training.run import train_or_continue


def measure(name: str, recipe: Recipe, folder: Path, device: str) -> StudyRun:
    """Train and measure one run."""
    row = GRID[name]
    began = time.monotonic()
    train_or_continue(recipe, folder, device=device)
    trained = time.monotonic()
    found = prunus.evaluate(folder, split=row.split, device=device)
    assert found.sparsity is not None
    assert found.params_ratio_with_source is not None
    return StudyRun(
        name=name,
        seed=recipe.seed,
        split=row.split,
        method=found.method,
        budget=found.budget,
        recipe=portable(recipe),
        versions=versions(),
        machine=torch.cuda.get_device_name() if device == "cuda" else describe_machine(),
        seconds=round(trained - began, 1),
        measuring_seconds=round(time.monotonic() - trained, 1),
        train_images=train_images(recipe),
        images=found.images,
        accuracies=found.accuracies,
        mean_accuracy=found.mean_accuracy,
        union=found.union,
        intersection=found.intersection,
        sparsity=found.sparsity,
        usage={domain: result.usage for domain, result in found.domains.items()},
        domain_macs_ratio={domain: result.macs_ratio for domain, result in found.domains.items()},
        macs_ratio=found.macs_ratio,
        params_ratio=found.params_ratio,
        params_ratio_with_source=found.params_ratio_with_source,
        stored_bytes=found.stored_bytes,
        model_bytes=found.model_bytes,
        dense_bytes=found.dense_bytes,
        budget_kept=found.budget_kept,
    )


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    found = {"prunus": prunus.__version__, "torch": torch.__version__}
    try:
        return found | {"numpy": version("numpy")}
    except PackageNotFoundError:
        return found


def train_images(recipe: Recipe) -> dict[str, int]:
    """Count the images that every domain is trained on."""
    parts = recipe.training.splits.split("+")
    opened = [open_domain(choice, recipe.training.validation_share) for choice in recipe.domains]
    return {domain.name: sum(len(domain.split(part)) for part in parts) for domain in opened}


def forget(folder: Path) -> None:
    """Remove a run folder, and give the memory of its tensors back to the device."""
    shutil.rmtree(folder, ignore_errors=True)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.compiler.reset()  # or torch compiles no more after eight runs, whose networks all differ to it


def seconds_per_epoch(run: StudyRun) -> float:
    """Return the time that a run took, by which the next one is planned."""
    training = run.recipe["training"]
    assert isinstance(training, dict)
    return (run.seconds + run.measuring_seconds) / int(str(training["epochs"]))


def find_domains(data: Path) -> list[str]:
    """Return the domains of a folder, in order."""
    if not data.is_dir():
        raise SystemExit(f"there is no folder {data}; name the folder of the zip files or class folders")
    found = sorted(path for path in data.iterdir() if path.suffix == ".zip" or path.is_dir())
    if not found:
        raise SystemExit(f"{data} holds no domains; name the folder of the zip files or class folders")
    return [str(path) for path in found]


@contextmanager
def claimed(study: Study, name: str, seed: int) -> Iterator[bool]:
    """Hold a run while it is trained; yield whether it is to be trained here, or another process does so or has."""
    study.runs.mkdir(parents=True, exist_ok=True)
    path = study.runs / f"{name}-{seed}.lock"
    lock = FileLock(path, blocking=False)  # the system releases it when a process dies
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield not (study.results / file_of(name, seed)).exists()
    finally:
        with suppress(OSError):
            path.unlink()
        lock.release()


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", metavar="DATA", help="the folder of the nine domains")
    parser.add_argument("--study", choices=STUDIES, default=NINE.name, help="which study (default: %(default)s)")
    parser.add_argument("--device", help="(default: the study's)")
    parser.add_argument("--backbone", help="(default: the study's)")
    parser.add_argument("--epochs", type=int, help="(default: the study's)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run that would end later")
    parser.add_argument("--only", choices=GRID, metavar="NAME", help="only this row of the grid")
    parser.add_argument("--list", action="store_true", help="print the runs and which are finished, and stop")
    parser.add_argument("--out", type=Path, dest="results", metavar="OUT", help="(default: the study's)")
    parser.add_argument("--runs", type=Path, help="where runs are trained (default: the study's)")
    parser.add_argument("--keep", action="store_true", help="keep the run folders")
    return parser


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """Read the options, and refuse those that do not fit the study."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    study = STUDIES[options.study]
    if study.domains is None and options.data is None:
        parser.error(
            f"the study {study.name!r} needs DATA, the folder with a zip file or folder per domain; to train on the "
            "bundled images instead, give --study demo"
        )
    if study.domains is not None and options.data is not None:
        parser.error(f"the study {study.name!r} trains on the bundled images; leave out {str(options.data)!r}")
    if options.only in study.skipped:
        parser.error(f"the study {study.name!r} has no row {options.only!r}; --list shows those that it has")
    return options


def study_of(options: argparse.Namespace) -> Study:
    """Return the chosen study, with what the options change."""
    given = {key: getattr(options, key) for key in ("device", "backbone", "epochs", "results", "runs")}
    return replace(STUDIES[options.study], **{key: value for key, value in given.items() if value is not None})


def list_runs(recipes: Mapping[tuple[str, int], Recipe], stored: Runs, differences: Sequence[str]) -> None:
    """Print the runs, and how those that are stored differ from their recipes."""
    for number, ((name, seed), recipe) in enumerate(recipes.items(), 1):
        training = f"{recipe.training.splits}, {recipe.training.num_epochs} epochs"
        state = ", finished" if (name, seed) in stored else ""
        print(f"{number}/{len(recipes)} {name} seed {seed}: {training}{state}")
    for difference in differences:
        print(f"other recipe: {difference}")


def main(arguments: list[str] | None = None) -> None:
    """Train what is missing."""
    options = read_options(arguments)
    study = study_of(options)
    began = time.monotonic()
    domains = study.domains or find_domains(options.data)
    chosen = [(name, seed) for name, seed in planned(study) if options.only in (None, name)]
    recipes = {(name, seed): recipe_of(study, name, seed, domains) for name, seed in chosen}
    stored = read_runs(study.results)
    differences = stale(stored, recipes)
    if options.list:
        list_runs(recipes, stored, differences)
        return
    refuse_stale(differences, study.results)
    missing = [key for key in chosen if key not in stored]
    if not missing:
        print(f"all of these runs are finished; --out FOLDER trains them again ({study.results} holds their results)")
    known = [seconds_per_epoch(run) for run in stored.values()]
    per_epoch = statistics.median(known) if known else 0.0
    for number, key in enumerate(missing, 1):
        recipe = recipes[key]
        if time.monotonic() - began + per_epoch * recipe.training.num_epochs > options.seconds:
            continue
        with claimed(study, *key) as is_ours:
            if is_ours:
                run = train(study, *key, recipe, options.keep)
                per_epoch = seconds_per_epoch(run)
                print(f"{number}/{len(missing)} {described(run)}", flush=True)


def train(study: Study, name: str, seed: int, recipe: Recipe, keep: bool) -> StudyRun:
    """Train and measure a run, and store its result."""
    folder = study.runs / f"{name}-{seed}"
    run = measure(name, recipe, folder, study.device)
    write_run(study.results, run)
    if not keep:
        forget(folder)
    return run


def described(run: StudyRun) -> str:
    """Return a line about a finished run."""
    seconds = run.seconds + run.measuring_seconds
    return f"{run.name} seed {run.seed}: {run.mean_accuracy:.4f}, union {run.union:.3f}, {seconds:.0f} s"


if __name__ == "__main__":
    main()
