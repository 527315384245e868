"""Find run folders, and read their results, recipe, log, timings and versions."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from prunus.errors import DataError
from prunus.measure.evaluation import Evaluation
from prunus.measure.speed import Benchmark
from prunus.report.page.run import ReportedRun
from prunus.report.recipe import shown_recipe
from prunus.run_folder import RunFolder

DEPTH = 2  # levels of subfolders that are searched: runs/compare/RUN

Model = TypeVar("Model", bound=BaseModel)


class Origin(BaseModel):
    """The packages that trained a run: name -> version."""

    versions: dict[str, str]


def find_runs(paths: Sequence[Path]) -> tuple[list[Path], dict[str, str]]:
    """Return the run folders in `paths`, each once, and the paths without any -> why."""
    runs: dict[Path, Path] = {}
    left_out: dict[str, str] = {}
    for path in paths:
        below = list(_runs_below(path, DEPTH))
        runs = {run.resolve(): run for run in below} | runs
        if not below and not _is_table(path):
            left_out[str(path)] = f"{_problem(path)}; make one with: prunus train recipe.toml --out RUN"
    return list(runs.values()), left_out


def run_names(paths: Sequence[Path]) -> list[str]:
    """Name runs by the last parts of their paths, using as few parts as needed to be unique."""
    parts = [path.resolve().parts for path in paths]
    for count in range(1, max(map(len, parts), default=0) + 1):
        names = ["/".join(path_parts[-count:]) for path_parts in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def read_run(path: Path, name: str, results: Evaluation | None = None) -> ReportedRun:
    """Read a run folder; optional files that cannot be read become notes.

    Args:
        results: if they are not in the folder itself.
    """
    folder = RunFolder(path)
    notes: list[str] = []
    bench = _read_optional(folder.bench, Benchmark, "Latency is omitted", notes)
    measured = results or read_results(path)
    if results is None:
        notes += [f"Not measured: {reason}." for reason in measured.unmeasured.values()]
    origin = _read_optional(folder.versions, Origin, "The versions it was trained with are omitted", notes)
    return ReportedRun(
        name,
        measured,
        read_recipe(folder.recipe),
        tuple(folder.epochs()),
        bench,
        origin.versions if origin else {},
        notes=tuple(notes),
    )


def read_results(path: Path) -> Evaluation:
    """Read the results of a run folder."""
    file = RunFolder(path).results
    remedy = "measure it with: prunus evaluate RUN"
    if not file.exists():
        raise DataError(f"it has not been measured; {remedy}")
    try:
        return read_model(file, Evaluation)
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from None


def read_model(file: Path, kind: type[Model]) -> Model:
    """Read a JSON file as a model of a kind."""
    try:
        return kind.model_validate_json(file.read_bytes())
    except OSError as error:
        raise DataError(f"{file.name} cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(f"{file.name} is not valid: {key}: {first['msg']}") from None


def _read_optional(file: Path, kind: type[Model], consequence: str, notes: list[str]) -> Model | None:
    try:
        return read_model(file, kind) if file.exists() else None
    except DataError as error:
        notes.append(f"{consequence}: {error}")
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
        for folder in sorted(path.iterdir()):
            if folder.is_dir() and not folder.name.startswith("."):
                yield from _runs_below(folder, depth - 1)


def _is_table(path: Path) -> bool:
    """Return whether a file is a table or plot of `prunus compare` or `prunus sweep`, which RUNS/* matches too."""
    return path.stem in ("comparison", "sweep", "pareto") and path.is_file()


def _problem(path: Path) -> str:
    if path.is_dir():
        return "it contains no run"
    return "it is a file, not a run folder" if path.exists() else "no such run"
