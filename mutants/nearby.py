"""The test files that reach a module, nearest first."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

FARTHEST = 1  # modules between a test and the one that it is asked to notice, outside the room of the module


def mirrored(tree: Path, module: str) -> Path | None:
    """Return the test file of the same name as the module."""
    path = tree / "tests" / Path(module).parent / f"test_{Path(module).name}"
    return path if path.exists() else None


def nearby(tree: Path, module: str) -> list[Path]:
    """List the test files that import the module, directly or through another one, and those of its room."""
    name, room = _name(Path(module)), Path(module).parent
    distances = {path: _distance(tree, _imports(tree, path), name) for path in _tests(tree)}
    own = {path for path in distances if path.parent == tree / "tests" / room}
    reached = [path for path, distance in distances.items() if path in own or distance <= FARTHEST]
    return sorted(reached, key=lambda path: (distances[path], path not in own, path))


def _distance(tree: Path, start: frozenset[str], target: str) -> int:
    seen, edge = set(start), set(start)
    for distance in range(FARTHEST + 1):
        if target in edge:
            return distance
        edge = {name for module in edge for name in _module_imports(tree, module)} - seen
        seen |= edge
    return FARTHEST + 1


@cache
def _tests(tree: Path) -> tuple[Path, ...]:
    return tuple(sorted((tree / "tests").rglob("test_*.py")))


@cache
def _module_imports(tree: Path, name: str) -> frozenset[str]:
    path = tree / "src" / (name.replace(".", "/") + ".py")
    return _imports(tree, path) if path.exists() else frozenset()


@cache
def _imports(tree: Path, path: Path) -> frozenset[str]:
    """Return the modules of the package that a file imports; `prunus.train` names the module of a public function."""
    source = path.read_text()
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(("prunus", "tests.makers")):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    makers = [name for name in found if name.startswith("tests.makers.")]
    for maker in makers:
        file = tree / (maker.replace(".", "/") + ".py")
        found |= _imports(tree, file) if file.exists() else frozenset()
    public = _public(tree)
    return frozenset(found | {public[word] for word in re.findall(r"\bprunus\.(\w+)", source) if word in public})


@cache
def _public(tree: Path) -> dict[str, str]:
    nodes = ast.parse((tree / "src/prunus/__init__.pyi").read_text()).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.asname or alias.name: f"prunus.{node.module}" for node in imports for alias in node.names}


def _name(module: Path) -> str:
    return ".".join(("prunus", *module.with_suffix("").parts))
