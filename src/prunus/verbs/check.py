"""Look for what is wrong with image data before a training finds out."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from prunus.config import DEMO_PREFIX
from prunus.data.domains import Listing, list_files
from prunus.data.sources import Source, open_source
from prunus.errors import DataError
from prunus.images import read_image


@dataclass(frozen=True)
class Finding:
    """One thing to know: an error stops a training, a warning is worth a look."""

    level: Literal["error", "warning"]
    domain: str
    file: str
    message: str


@dataclass(frozen=True)
class DomainSummary:
    """What one domain holds."""

    name: str
    classes: int
    images: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckReport:
    """All domains found and everything noticed."""

    domains: tuple[DomainSummary, ...]
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether a training would stop."""
        return any(finding.level == "error" for finding in self.findings)


def check(path: str | Path, on_image: Callable[[], None] = lambda: None) -> CheckReport:
    """Check one domain (a folder or zip with a train split) or a folder of domains, decoding every image."""
    summaries: list[DomainSummary] = []
    findings: list[Finding] = []
    for name, place in find_domains(path):
        try:
            source = open_source(place)
        except DataError as error:
            findings.append(Finding("error", name, Path(place).name, str(error)))
            continue
        listing = list_files(source)
        summaries.append(_summarize(name, listing))
        findings += [*_check_classes(name, listing), *_check_images(name, source, listing, on_image)]
    return CheckReport(tuple(summaries), tuple(findings))


def find_domains(path: str | Path) -> list[tuple[str, str]]:
    """List the domains at a place as (name, path)."""
    name = Path(path).resolve().name.removesuffix(".zip").removeprefix(DEMO_PREFIX)
    if "train" in list_files(open_source(path)).files:
        return [(name, str(path))]
    inside = sorted(Path(path).iterdir()) if Path(path).is_dir() else []
    entries = [
        entry for entry in inside if not entry.name.startswith(".") and (entry.is_dir() or entry.suffix == ".zip")
    ]
    if not entries:
        raise DataError(
            f"{path} holds no domain: expected <split>/<class>/<image>, or a folder of such folders or zip files"
        )
    return [(entry.name.removesuffix(".zip"), str(entry)) for entry in entries]


def _summarize(name: str, listing: Listing) -> DomainSummary:
    counts = {split: sum(map(len, classes.values())) for split, classes in listing.files.items()}
    return DomainSummary(name, len(listing.classes("train")), counts)


def _check_classes(name: str, listing: Listing) -> Iterator[Finding]:
    if "train" not in listing.files:
        yield Finding(
            "error", name, "", "no train split: expected <split>/<class>/<image> with the splits train and test"
        )
    if "test" not in listing.files:
        yield Finding("warning", name, "", "no test split: the model can be trained but not measured")
    if len(listing.classes("train")) == 1:
        yield Finding("error", name, "train/", "one class only: a classifier needs two")
    for split, by_class in sorted(listing.files.items()):
        for label, files in sorted(by_class.items()):
            place = f"{listing.folders[split]}/{label}/"
            if not files:
                yield Finding("error", name, place, "the class holds no image")
            elif label not in listing.classes("train"):
                yield Finding("error", name, place, "the class is not in train")
    for label in sorted(listing.classes("train") - listing.classes("test") if "test" in listing.files else ()):
        yield Finding("warning", name, f"train/{label}/", "the class has no test image")
    for file in listing.ignored:
        yield Finding("warning", name, file, "not an image of <split>/<class>/: ignored")


def _check_images(name: str, source: Source, listing: Listing, on_image: Callable[[], None]) -> Iterator[Finding]:
    files = [(split, file) for split, classes in listing.files.items() for label in classes.values() for file in label]

    def inspect(entry: tuple[str, str]) -> tuple[str | None, str | None]:
        on_image()
        try:
            content = source.read(entry[1])
            read_image(content, entry[1])
        except DataError as error:
            return str(error), None
        return None, hashlib.sha256(content).hexdigest()

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        inspected = list(pool.map(inspect, files))
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for (split, file), (problem, digest) in zip(files, inspected, strict=True):
        if problem:
            yield Finding("error", name, file, problem)
        elif digest:
            places[digest].setdefault(split, file)
    for twins in places.values():
        if "train" in twins and "test" in twins:
            yield Finding(
                "warning", name, twins["test"], f"the same bytes as {twins['train']}: the test would be too easy"
            )
