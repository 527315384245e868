"""A seeded sample of mutants that changes little when the code does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mutants.places import Place, mutated, places

# the parts of the package that are sampled alike, and their folders
PARTS = {
    "losses": ("losses",),
    "masks": ("masks",),
    "training": ("training", "learning", "checkpoints", "budgets"),
    "measure": ("measure",),
    "pruning": ("lowering", "graph"),
    "bundle": ("bundle",),
    "runtime": ("runtime",),
    "serving": ("serving",),
    "public functions": ("verbs",),
}


def draw(root: Path, part: str, count: int, seed: int) -> list[Place]:
    """Draw mutants of a part, at most one per position.

    Positions are ordered by a hash of their text, so a change of the code replaces only mutants of the changed lines.
    """
    sites: dict[tuple[str, str, int, int], list[Place]] = {}
    for module in modules(root, part):
        for place in places(root, module):
            sites.setdefault(place.site, []).append(place)
    ordered = sorted(sites, key=lambda site: _rank(seed, site))
    return list(islice(_possible(root, seed, [sites[site] for site in ordered]), count))


def modules(root: Path, part: str) -> list[str]:
    """List the modules of a part."""
    paths = (path for folder in PARTS[part] for path in sorted((root / folder).rglob("*.py")))
    return [path.relative_to(root).as_posix() for path in paths if path.name != "__init__.py"]


def _possible(root: Path, seed: int, sites: list[list[Place]]) -> Iterator[Place]:
    for choices in sites:
        for place in sorted(choices, key=lambda place: _rank(seed, place.name)):
            if mutated((root / place.module).read_text(), place) is not None:
                yield place
                break


def _rank(seed: int, key: object) -> str:
    return hashlib.sha256(repr((seed, key)).encode()).hexdigest()
