"""What can be wrong with a domain's files, each as one finding."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from prunus.benchmarks import Benchmark, BenchmarkSet
from prunus.data.domains import SPLITS, Domain, Listing
from prunus.data.sources import FolderSource, Source
from prunus.errors import DataError
from prunus.images import SUFFIXES, image_mode, read_image

COMMON_MODES = frozenset({"RGB", "L"})
EXAMPLES = 3
CHUNK = 1024  # images handed to the threads at a time


@dataclass(frozen=True)
class Finding:
    """One thing to know: an error stops a training, a warning is worth a look."""

    level: Literal["error", "warning"]
    domain: str
    file: str
    message: str


@dataclass(frozen=True)
class _Seen:
    problem: str | None = None
    mode: str = "RGB"
    digest: str = ""


def check_listing(name: str, listing: Listing) -> Iterator[Finding]:
    """Look at the folders of `<split>/<class>/<image>`."""
    if "train" not in listing.files:
        message = "no train split: expected <split>/<class>/<image> with the splits train and test"
        yield Finding("error", name, "", message)
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


def check_annotated(domain: Domain, root: Path) -> Iterator[Finding]:
    """Compare a benchmark's annotations with the files that are there."""
    annotated = {item.file: item.image_id for split in SPLITS for item in domain.split(split)}
    inside = f"data/{domain.name}"
    names = FolderSource(root / inside).names()
    present = {f"{inside}/{name}" for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES}
    lost = [f"{annotated[file]} ({file})" for file in annotated if file not in present]
    if lost:
        message = f"{len(lost)} annotated images have no file, such as {', '.join(lost[:EXAMPLES])}"
        yield Finding("error", domain.name, "", message)
    strays = sorted(present - annotated.keys())
    if strays:
        message = f"{len(strays)} files have no annotation, such as {', '.join(strays[:EXAMPLES])}"
        yield Finding("warning", domain.name, "", message)
    for split in ("validation", "test"):
        labels = {item.label for item in domain.split(split)}
        missing = [name for label, name in enumerate(domain.classes) if label not in labels]
        if missing and min(labels, default=-1) >= 0:
            yield Finding(
                "warning", domain.name, "", f"{len(missing)} classes have no {split} image: {missing[0]!r} first"
            )


def check_counts(benchmark: Benchmark, each: BenchmarkSet, num_classes: int, num_test: int) -> Iterator[Finding]:
    """Compare how much there is with how much the benchmark has."""
    for what, found, expected in (("classes", num_classes, each.classes), ("test images", num_test, each.num_test)):
        if expected is not None and found != expected:
            yield Finding("warning", each.name, "", f"{found} {what}, {benchmark.title} has {expected}")


def check_images(
    name: str, source: Source, files: Sequence[tuple[str, str]], on_image: Callable[[], None]
) -> Iterator[Finding]:
    """Decode every image, given as (split, file): unreadable ones, odd modes, the same bytes in train and test."""

    def look(entry: tuple[str, str]) -> _Seen:
        on_image()
        try:
            content = source.read(entry[1])
            read_image(content, entry[1])
        except DataError as error:
            return _Seen(problem=str(error))
        return _Seen(mode=image_mode(content), digest=hashlib.sha256(content).hexdigest())

    seen: list[_Seen] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for start in range(0, len(files), CHUNK):
            seen += pool.map(look, files[start : start + CHUNK])
    places: dict[str, dict[str, str]] = defaultdict(dict)
    modes: dict[str, list[str]] = defaultdict(list)
    for (split, file), image in zip(files, seen, strict=True):
        if image.problem:
            yield Finding("error", name, file, image.problem)
            continue
        places[image.digest].setdefault(split, file)
        if image.mode not in COMMON_MODES:
            modes[image.mode].append(file)
    for mode, odd in sorted(modes.items()):
        yield Finding("warning", name, odd[0], f"{len(odd)} images of mode {mode}: they are turned to RGB")
    for twins in places.values():
        if "train" in twins and "test" in twins:
            yield Finding(
                "warning", name, twins["test"], f"the same bytes as {twins['train']}: the test would be too easy"
            )
