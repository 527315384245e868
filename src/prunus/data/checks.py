"""Check image data before training: every problem is one finding."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from prunus.benchmarks import DECATHLON, IMAGENET_TO_SKETCH, Benchmark, BenchmarkSet
from prunus.config import DEMO_PREFIX
from prunus.data.domains import SPLITS, Domain, Listing, list_files
from prunus.data.sources import FolderSource, Source, describe_folder, open_source
from prunus.data.visual_decathlon.sets import annotation_file, check_root, open_decathlon_set
from prunus.errors import DataError
from prunus.images import SUFFIXES, image_mode, read_image
from prunus.names import name_problem

COMMON_MODES = frozenset({"RGB", "L"})
EXAMPLES = 3
CHUNK = 1024  # images decoded at a time
OnImage = Callable[[], None]


@dataclass(frozen=True)
class Finding:
    """One problem: an error stops a training run, a warning is worth a look."""

    level: Literal["error", "warning"]
    domain: str
    file: str
    message: str


@dataclass(frozen=True)
class DomainSummary:
    """The number of classes of a domain, and of images in each split."""

    name: str
    classes: int
    images: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckReport:
    """The domains that were checked and all findings."""

    domains: tuple[DomainSummary, ...]
    findings: tuple[Finding, ...]

    @property
    def has_errors(self) -> bool:
        """Whether a training run would stop."""
        return any(finding.level == "error" for finding in self.findings)


def find_domains(path: str | Path) -> list[tuple[str, str]]:
    """List the domain at a path, or the domains in a folder, as (name, path)."""
    name = Path(path).resolve().name.removesuffix(".zip").removeprefix(DEMO_PREFIX)
    if "train" in list_files(open_source(path)).files:
        return [(name, str(path))]
    if (Path(path) / "annotations").is_dir() and (Path(path) / "data").is_dir():
        raise DataError(f"{path} looks like the Visual Decathlon; check it with the argument benchmark='decathlon'")
    inside = sorted(Path(path).iterdir()) if Path(path).is_dir() else []
    entries = [
        entry for entry in inside if not entry.name.startswith(".") and (entry.is_dir() or entry.suffix == ".zip")
    ]
    if not entries:
        raise DataError(
            f"{path} holds no domain: expected <split>/<class>/<image>, or a folder of such folders or zip files"
        )
    return [(entry.name.removesuffix(".zip"), str(entry)) for entry in entries]


def check_folders(domains: Sequence[tuple[str, str]], benchmark: Benchmark | None, on_image: OnImage) -> CheckReport:
    """Check domains of `<split>/<class>/<image>`, given as (name, path), and their sizes if they are a benchmark's."""
    summaries: list[DomainSummary] = []
    findings: list[Finding] = []
    for name, path in domains:
        if problem := name_problem(name):
            findings.append(Finding("error", name, "", problem))
        try:
            source = open_source(path)
        except DataError as error:
            findings.append(Finding("error", name, Path(path).name, str(error)))
            continue
        listing = list_files(source)
        counts = {split: sum(map(len, classes.values())) for split, classes in listing.files.items()}
        summary = DomainSummary(name, len(listing.classes("train")), counts)
        files = [(s, file) for s, classes in listing.files.items() for label in classes.values() for file in label]
        summaries.append(summary)
        findings += [*_check_listing(name, listing), *_check_images(name, source, files, on_image)]
        if benchmark:
            findings += _check_counts(benchmark, benchmark.find(name), summary)
    return CheckReport(tuple(summaries), tuple(findings))


def check_sketch(root: Path, benchmark: Benchmark, on_image: OnImage) -> CheckReport:
    """Check the sets of ImageNet-to-Sketch that are in a folder."""
    sets = [(name, str(root / name)) for name in benchmark.names() if (root / name).is_dir()]
    if not sets:
        names = ", ".join(benchmark.names())
        raise DataError(f"{root} holds no set of {benchmark.title}: looked for {names}; {describe_folder(root)}")
    return check_folders(sets, benchmark, on_image)


def check_decathlon(root: Path, benchmark: Benchmark, on_image: OnImage) -> CheckReport:
    """Check the sets of the Visual Decathlon that have annotation files."""
    check_root(root)
    summaries: list[DomainSummary] = []
    findings: list[Finding] = []
    for benchmark_set in benchmark.sets:
        name = benchmark_set.name
        if not any(annotation_file(root, name, ending).exists() for ending in ("train", "val", "test_stripped")):
            findings.append(Finding("warning", name, "", "the set has no annotation files: it is skipped"))
            continue
        try:
            domain = open_decathlon_set(root, name)
        except DataError as error:
            findings.append(Finding("error", name, "", str(error)))
            continue
        summary = DomainSummary(name, len(domain.classes), {split: len(domain.split(split)) for split in SPLITS})
        present = [(s, item.file) for s in SPLITS for item in domain.split(s) if (root / item.file).exists()]
        summaries.append(summary)
        findings += [*_check_annotated(domain, root), *_check_counts(benchmark, benchmark_set, summary)]
        findings += _check_images(name, domain.source, present, on_image)
    return CheckReport(tuple(summaries), tuple(findings))


def _check_listing(name: str, listing: Listing) -> Iterator[Finding]:
    """Check the folders of a domain."""
    for folder, message in listing.faults():
        yield Finding("error", name, folder, message)
    if "test" not in listing.files:
        yield Finding("warning", name, "", "there is no test split: the model can be trained but not evaluated")
    for label in sorted(listing.classes("train") - listing.classes("test") if "test" in listing.files else ()):
        yield Finding("warning", name, f"train/{label}/", "the class has no test image")
    for file in listing.ignored:
        yield Finding("warning", name, file, "not an image of <split>/<class>/: ignored")


def _check_annotated(domain: Domain, root: Path) -> Iterator[Finding]:
    """Compare a benchmark's annotations with the files on disk."""
    annotated = {item.file: item.image_id for split in SPLITS for item in domain.split(split)}
    folder = f"data/{domain.name}"
    names = FolderSource(root / folder).names()
    present = {f"{folder}/{name}" for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES}
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
            message = f"{len(missing)} classes have no {split} image, such as {missing[0]!r}"
            yield Finding("warning", domain.name, "", message)


def _check_counts(benchmark: Benchmark, benchmark_set: BenchmarkSet, summary: DomainSummary) -> Iterator[Finding]:
    """Compare the number of classes and test images with the benchmark's."""
    num_test = summary.images.get("test", 0)
    for what, count, expected in (
        ("classes", summary.classes, benchmark_set.classes),
        ("test images", num_test, benchmark_set.num_test),
    ):
        if expected is not None and count != expected:
            yield Finding("warning", benchmark_set.name, "", f"{count} {what}, {benchmark.title} has {expected}")


@dataclass(frozen=True)
class _Decoded:
    problem: str | None = None
    mode: str = "RGB"
    digest: str = ""


def _check_images(name: str, source: Source, files: Sequence[tuple[str, str]], on_image: OnImage) -> Iterator[Finding]:
    """Decode images, given as (split, file): find unreadable ones, unusual modes, the same bytes in train and test."""

    def decode(file: str) -> _Decoded:
        on_image()
        try:
            content = source.read(file)
            read_image(content, file)
        except DataError as error:
            return _Decoded(problem=str(error))
        return _Decoded(mode=image_mode(content), digest=hashlib.sha256(content).hexdigest())

    images: list[_Decoded] = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for start in range(0, len(files), CHUNK):
            images += pool.map(decode, [file for _, file in files[start : start + CHUNK]])
    copies: dict[str, dict[str, str]] = defaultdict(dict)  # digest -> split -> its first file with these bytes
    modes: dict[str, list[str]] = defaultdict(list)
    for (split, file), image in zip(files, images, strict=True):
        if image.problem:
            yield Finding("error", name, file, image.problem)
            continue
        copies[image.digest].setdefault(split, file)
        if image.mode not in COMMON_MODES:
            modes[image.mode].append(file)
    for mode, odd in sorted(modes.items()):
        yield Finding("warning", name, odd[0], f"{len(odd)} images of mode {mode}: they are converted to RGB")
    for twins in copies.values():
        if "train" in twins and "test" in twins:
            message = f"the same bytes as {twins['train']}: the test accuracy would be too high"
            yield Finding("warning", name, twins["test"], message)


BENCHMARK_CHECKS = {DECATHLON.name: check_decathlon, IMAGENET_TO_SKETCH.name: check_sketch}
