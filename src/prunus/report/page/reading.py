"""Find runs on the disk and read what they left: results, recipe, log and speed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from prunus.errors import DataError
from prunus.measure.evaluation import Evaluation
from prunus.measure.speed import Benchmark
from prunus.report.page.run import Origin, ReportedRun
from prunus.report.recipe import shown_recipe
from prunus.run_folder import RunFolder

DEPTH = 2  # folders below a given one in which runs are looked for: runs/ holds compare/, which holds the runs

Model = TypeVar("Model", bound=BaseModel)


def find_runs(paths: Sequence[Path]) -> tuple[list[Path], dict[str, str]]:
    """List the run folders that are meant, each once, and what of `paths` holds none, with the reason."""
    found: dict[Path, Path] = {}
    left_out: dict[str, str] = {}
    for path in paths:
        inside = list(_runs_below(path, DEPTH))
        found |= {run.resolve(): run for run in inside if run.resolve() not in found}
        if not inside and not _is_table(path):
            left_out[str(path)] = f"{_fault(path)}; make one with: prunus train recipe.toml --out RUN"
    return list(found.values()), left_out


def run_names(paths: Sequence[Path]) -> list[str]:
    """Name runs by the last parts of their paths, as few as tell them apart."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max((len(each) for each in parts), default=0) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def read_run(path: Path, name: str, results: Evaluation | None = None) -> ReportedRun:
    """Read a run folder; what the page can do without becomes a note where it cannot be read.

    Args:
        results: of a run whose results lie elsewhere.
    """
    folder = RunFolder(path)
    notes: list[str] = []
    bench = _read_if_there(folder.bench, Benchmark, "its speed is left out", notes)
    origin = _read_if_there(folder.versions, Origin, "what it was trained with is left out", notes)
    return ReportedRun(
        name,
        results or read_results(path),
        read_recipe(folder.recipe),
        tuple(folder.epochs()),
        bench,
        origin.versions if origin else {},
        notes=tuple(notes),
    )


def read_results(path: Path) -> Evaluation:
    """Read the results of a run folder."""
    file = RunFolder(path).results
    mend = "measure it with: prunus evaluate RUN --json > RUN/results.json"
    if not file.exists():
        raise DataError(f"it was not measured yet; {mend}")
    try:
        return read_model(file, Evaluation)
    except DataError as error:
        raise DataError(f"{error}; {mend}") from None


def read_model(file: Path, kind: type[Model]) -> Model:
    """Read a JSON file that must look like `kind`."""
    try:
        return kind.model_validate_json(file.read_bytes())
    except OSError as error:
        raise DataError(f"{file.name} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{file.name} is not what it must be: {place}: {first['msg']}") from None


def _read_if_there(file: Path, kind: type[Model], fault: str, notes: list[str]) -> Model | None:
    try:
        return read_model(file, kind) if file.exists() else None
    except DataError as error:
        notes.append(f"{fault}: {error}")
        return None


def read_recipe(file: Path) -> dict[str, str]:
    """Read a recipe as it is shown; empty if it cannot be read."""
    try:
        return shown_recipe(json.loads(file.read_text()))
    except (OSError, ValueError):
        return {}


def _runs_below(path: Path, depth: int) -> Iterator[Path]:
    if RunFolder(path).recipe.is_file():
        yield path
    elif depth and path.is_dir():
        for each in sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith(".")):
            yield from _runs_below(each, depth - 1)


def _is_table(path: Path) -> bool:
    """Tell whether a file is one that `prunus compare` writes beside its runs: RUNS/* names it too."""
    return path.stem == "comparison" and path.is_file()


def _fault(path: Path) -> str:
    return "it holds no run" if path.is_dir() else "it is a file, not a run folder" if path.exists() else "no such run"
