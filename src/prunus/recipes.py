"""Read recipes from TOML, JSON or plain data, fill in benchmarks and explain mistakes."""

import copy
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prunus.benchmarks import Benchmark, find_benchmark
from prunus.catalog import read_catalog
from prunus.config import (
    NO_FOLDERS,
    BackboneChoice,
    Budget,
    DomainChoice,
    Evaluation,
    Recipe,
    Settings,
    Sharing,
    Training,
)
from prunus.errors import RecipeError, UnknownNameError
from prunus.names import is_utf8
from prunus.presets import of_any_version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# tables that may be written as the value of one key only
SHORT = {"backbone": "name", "method": "name", "budget": "kernels", "source": "path"}
PATHS = ("root", "init", "teacher")
SOURCE = "source"  # a key that only recipes as they are written have: it becomes the first domain
TRAINED_FIRST = "finetune"  # a teacher that is not a path


def parse_recipe(content: Mapping[str, object], base: Path | None = None) -> Recipe:
    """Check a recipe in the form of plain data; relative paths start at `base`."""
    if isinstance(name := content.get("benchmark"), str):
        content = _expand_benchmark(dict(content), find_benchmark(name))
    has_source = content.get(SOURCE) is not None
    content = _with_source_first(content)
    try:
        recipe = Recipe.model_validate_json(json.dumps(content, ensure_ascii=False).encode())
    except UnicodeEncodeError as error:
        near = error.object[max(error.start - 40, 0) : error.end + 20]
        raise RecipeError(
            f"the recipe contains a text or path that is not valid UTF-8, at {near!r}; rename it"
        ) from None
    except ValidationError as error:
        raise _explain(error, has_source) from None
    except TypeError as error:
        raise RecipeError(f"a recipe may hold text, numbers, lists and tables only: {error}") from None
    try:
        return recipe if base is None else with_absolute_paths(recipe, base)
    except (OSError, ValueError) as error:
        raise RecipeError(f"the recipe contains an invalid path: {error}") from None


def with_overrides(content: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """Apply overrides such as `training.epochs=5` to a recipe in the form of plain data."""
    changed: dict[str, object] = copy.deepcopy(dict(content))
    for override in overrides:
        _override(changed, override)
    return changed


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file (TOML or JSON) and apply overrides such as `training.epochs=5`."""
    return parse_recipe(with_overrides(_read(Path(path)), overrides), Path(path).parent)


def load_stored_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read the recipe that a run of this version or an earlier one has stored, and apply overrides."""
    return parse_recipe(with_overrides(of_any_version(_read(Path(path))), overrides), Path(path).parent)


def _read(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (FileNotFoundError, IsADirectoryError):
        raise RecipeError(f"no recipe file at {path}") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not valid {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(content, dict):
        raise RecipeError(f"{path} must hold a table of recipe keys, got a {type(content).__name__}")
    return content


def parse_toml(text: str) -> dict[str, object]:
    """Read the text of a recipe file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"the recipe is not valid TOML: {error}") from None


def recipe_differences(ours: Recipe, theirs: Recipe, except_for: Collection[str] = ()) -> list[str]:
    """List the keys in which two recipes differ, as `key: ours -> theirs`; a preset only fills in other keys."""
    left, right = flatten(ours.model_dump(mode="json")), flatten(theirs.model_dump(mode="json"))
    return [
        f"{key}: {left.get(key)} -> {right.get(key)}"
        for key in sorted(left.keys() | right.keys())
        if left.get(key) != right.get(key) and key not in ("preset", *except_for)
    ]


def _expand_benchmark(content: dict[str, object], benchmark: Benchmark) -> dict[str, object]:
    """Fill in a benchmark's domains, sizes and rules; keys of the recipe itself take precedence."""
    root = content.get("root")
    if not isinstance(root, str):
        raise RecipeError(f"benchmark = {benchmark.name!r} needs the key root: the folder with its data")
    chosen = content.get("domains", benchmark.names())
    if not isinstance(chosen, list):
        raise RecipeError(f"domains must be a list of sets of {benchmark.name}; known: {', '.join(benchmark.names())}")
    sizes: dict[str, object] = {"size": benchmark.size, "resize": benchmark.resize}
    backbone = content.get("backbone")
    backbone = {"name": backbone} if isinstance(backbone, str) else backbone
    if isinstance(backbone, Mapping):  # any other type is refused by the validation
        content["backbone"] = sizes = sizes | dict(backbone)
    domains = [dict(domain) if isinstance(domain, Mapping) else {"name": str(domain)} for domain in chosen]
    content["domains"] = [
        domain
        if domain.get(SOURCE) and "path" in domain  # need not be a set of the benchmark
        else _benchmark_domain(benchmark, root, sizes["size"], domain) | domain
        for domain in domains
    ]
    return content


def _with_source_first(content: Mapping[str, object]) -> dict[str, object]:
    """Make the source the first of the domains, marked as such."""
    written = {key: value for key, value in content.items() if key != SOURCE}
    source, domains = content.get(SOURCE), written.get("domains")
    if source is None or not isinstance(domains, list | tuple):  # the validation refuses other types of domains
        return written
    table = {"path": source} if isinstance(source, str) else source
    return written | {"domains": [dict(table) | {"source": True} if isinstance(table, Mapping) else table, *domains]}


def _benchmark_domain(benchmark: Benchmark, root: str, size: object, domain: Mapping[str, object]) -> dict[str, object]:
    known = benchmark.find(str(domain.get("name")))
    return {
        "path": root if benchmark.name == "decathlon" else f"{root}/{known.name}",
        "layout": benchmark.name,
        "mirror": known.mirror,
        "fit": "squash" if known.comes_cropped else "crop",
        "resize": size if known.comes_cropped else None,
        "statistics": "own" if benchmark.own_statistics else "backbone",
        "finetune_accuracy": known.finetune_accuracy,
        "feature_accuracy": known.feature_accuracy,
    }


def _override(content: dict[str, object], override: str) -> None:
    key, value = parse_assignment(override, "training.epochs=5")
    is_source = key in (SOURCE, f"{SOURCE}.path") and isinstance(value, str) and not value.startswith(NO_FOLDERS)
    if is_source or (key in PATHS and value != TRAINED_FIRST):  # relative to the working directory, not to the recipe
        value = str(Path(str(value)).expanduser().absolute())
    *tables, last = key.split(".")
    for depth, table in enumerate(tables):
        if table in SHORT and isinstance(value_of := content.get(table), (str, int, float)):
            content[table] = {SHORT[table]: value_of}
        inner = content.setdefault(table, {})
        if not isinstance(inner, dict):
            raise RecipeError(f"override {override!r}: {'.'.join(tables[: depth + 1])} is not a table in this recipe")
        content = inner
    content[last] = value


def parse_assignment(text: str, example: str) -> tuple[str, object]:
    """Split key=value and read the value as TOML."""
    key, separator, value = text.partition("=")
    if not separator:
        raise RecipeError(f"expected key=value, for example {example}; got {text!r}")
    return key.strip(), parse_value(value)


def parse_value(text: str) -> Any:  # noqa: ANN401  # any TOML value
    """Read a value as TOML; bare words are text, as in sharing.loss=union."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def with_absolute_paths(recipe: Recipe, base: Path) -> Recipe:
    """Make the paths of domains, weights and other runs absolute."""
    domains = tuple(
        domain
        if domain.path.startswith(NO_FOLDERS)
        else domain.model_copy(update={"path": _absolute(base, domain.path)})
        for domain in recipe.domains
    )
    backbone = recipe.backbone
    if backbone.weights not in ("pretrained", "random"):
        backbone = backbone.model_copy(update={"weights": _absolute(base, backbone.weights)})
    if backbone.is_model_file:
        backbone = backbone.model_copy(update={"name": _absolute(base, backbone.name)})
    if backbone.original not in (None, "pretrained"):
        backbone = backbone.model_copy(update={"original": _absolute(base, str(backbone.original))})
    _refuse_two_uses_of_the_source(domains)
    paths = {key: _absolute(base, path) for key in PATHS if (path := getattr(recipe, key))}
    if recipe.teacher == TRAINED_FIRST:
        del paths["teacher"]
    return recipe.model_copy(update={"domains": domains, "backbone": backbone, **paths})


def _refuse_two_uses_of_the_source(domains: Sequence[DomainChoice]) -> None:
    """Refuse a domain with the images of the source; all sets of the Decathlon share one path."""
    for source in (domain for domain in domains if domain.source and domain.layout != "decathlon"):
        for domain in domains:
            if domain is not source and domain.path == source.path:
                raise RecipeError(
                    f"{domain.path} is the source and also the domain {domain.name!r}; remove it from one of them"
                )


def _absolute(base: Path, path: str) -> str:
    absolute = str((base / path).resolve())
    if not is_utf8(absolute):  # the run stores it
        raise RecipeError(f"the path {absolute} is not valid UTF-8; rename it")
    return absolute


def _explain(error: ValidationError, has_source: bool) -> RecipeError | UnknownNameError:
    first, *others = error.errors()
    if first["type"] == "extra_forbidden":
        written = _as_written(first["loc"], has_source)
        key = ".".join(map(str, written))
        if methods := [method.name for method in read_catalog().methods if key in method.options]:
            return RecipeError(
                f"unknown recipe key {key!r}; did you mean 'method.{key}'? "
                f"It is an option of method {', '.join(methods)}"
            )
        return UnknownNameError("recipe key", key, _known_keys(written[:-1]), "docs/recipes.md lists all keys")
    # pydantic appends the branch of a union, such as literal['learned'], which is not a key
    loc = [part for part in first["loc"] if isinstance(part, int) or part.isidentifier()]
    where = ".".join(map(str, _as_written(loc, has_source)))
    if first["type"] == "missing":
        return RecipeError(f"the recipe lacks the key {where!r}")
    branches = [other for other in others if list(other["loc"][: len(loc)]) == loc]
    messages = [entry["msg"].removeprefix("Value error, ") for entry in [first, *branches]]
    message = " or ".join(dict.fromkeys(messages))
    got = "" if first["type"] == "value_error" else f", got {first['input']!r}"
    return RecipeError(f"recipe key {where!r}: {message}{got}")


def _as_written(loc: Sequence[str | int], has_source: bool) -> Sequence[str | int]:
    """Return the place of an error in the recipe as it was written, where the source is not among the domains."""
    match loc:
        case ["domains", 0, *rest] if has_source:
            return [SOURCE, *rest]
        case ["domains", int(number), *rest] if has_source:
            return ["domains", number - 1, *rest]
    return loc


def _known_keys(parents: Sequence[str | int]) -> list[str]:
    models: dict[str, type[Settings]] = {
        "backbone": BackboneChoice,
        "domains": DomainChoice,
        SOURCE: DomainChoice,
        "budget": Budget,
        "sharing": Sharing,
        "training": Training,
        "evaluation": Evaluation,
    }
    prefix = "".join(f"{part}." for part in parents)
    model = models[str(parents[0])] if parents else Recipe
    return [prefix + name for name in (*model.model_fields, *(() if parents else (SOURCE,)))]


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """Return a recipe's values by dotted keys, such as `domains.0.path`."""
    if isinstance(value, Mapping):
        return {k: v for key, item in value.items() for k, v in flatten(item, f"{prefix}{key}.").items()}
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return {k: v for key, item in enumerate(value) for k, v in flatten(item, f"{prefix}{key}.").items()}
    return {prefix[:-1]: value}
