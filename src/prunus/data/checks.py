"""Check image data before training: every problem is one finding."""

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

from prunus.benchmarks import DECATHLON, IMAGENET_TO_SKETCH, Benchmark, BenchmarkSet
from prunus.data.domains import SPLITS, Domain
from prunus.data.folders.finding import Place
from prunus.data.folders.listing import Listing, list_files
from prunus.data.folders.structure import UNREAD
from prunus.data.sources import FolderSource, Source, describe_folder, open_source
from prunus.data.visual_decathlon.sets import annotation_file, check_root, open_decathlon_set
from prunus.errors import DataError
from prunus.images import SUFFIXES, image_mode, read_image
from prunus.names import domain_name_problem, name_problem

COMMON_MODES = frozenset({"RGB", "L"})
EXAMPLES = 3
SKIPPED = "unreadable image skipped"
CHUNK = 1024  # images decoded at a time
OnImage = Callable[[], None]
Level = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """One problem: an error stops training, a warning is worth a look.

    Args:
        group: what many findings of this kind have in common, as in "43 x .txt ignored"; empty for a kind that is rare.
    """

    level: Level
    domain: str
    file: str
    message: str
    group: str = ""


@dataclass(frozen=True)
class DomainSummary:
    """The number of classes of a domain, and of images in each split."""

    name: str
    classes: int
    images: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckReport:
    """The domains that were checked, all findings, and how the folders were understood."""

    domains: tuple[DomainSummary, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    def __add__(self, other: "CheckReport") -> "CheckReport":
        """Return the content of two reports as one."""
        return CheckReport(self.domains + other.domains, self.findings + other.findings, self.notes + other.notes)

    @property
    def has_errors(self) -> bool:
        """Return whether there is an error."""
        return any(finding.level == "error" for finding in self.findings)


def check_folders(places: Sequence[Place], benchmark: Benchmark | None, on_image: OnImage) -> CheckReport:
    """Check domains of images in folders, and their sizes if they are a benchmark's."""
    summaries: list[DomainSummary] = []
    findings = list(_check_names(places))
    notes: list[str] = []
    for place in places:
        name = place.name
        try:
            source = open_source(place.path)
        except DataError as error:
            findings.append(Finding("error", name, Path(place.path).name, str(error)))
            continue
        listing = list_files(source, place.test_share, place.split_seed)
        counts = {split: sum(map(len, classes.values())) for split, classes in listing.files.items()}
        summary = DomainSummary(name, len(listing.classes("train")), counts)
        files = [(s, file) for s, classes in listing.files.items() for label in classes.values() for file in label]
        summaries.append(summary)
        findings += _check_listing(name, listing)
        of_images = list(_check_images(place, source, files, on_image))
        findings += [*of_images, *_lost_classes(place, listing, of_images)]
        notes += _notes(place, listing)
        if benchmark:
            findings += _check_counts(benchmark, benchmark.find(name), summary)
    return CheckReport(tuple(summaries), tuple(findings), tuple(notes))


def _check_names(places: Sequence[Place]) -> Iterator[Finding]:
    """Check the names of domains, which come from folders."""
    names = Counter(place.name for place in places)
    for place in places:
        problem = name_problem(place.name) or domain_name_problem(place.name)
        if problem:
            yield Finding("error", place.name, "", problem)
        elif names[place.name] > 1:
            message = f"{names[place.name]} folders have this domain name; a recipe needs a name for each of them"
            yield Finding("warning", place.name, place.folder, message)


def _notes(place: Place, listing: Listing) -> Iterator[str]:
    """Say what is not as the names of the folders suggest."""
    if place.folder not in (place.name, f"{place.name}.zip") and not name_problem(place.folder):
        yield f"the domain in {place.folder!r} is called {place.name!r}"
    if listing.structure.kind == "classes" and "train" in listing.files:
        yield f"{place.name}: {listing.describe()}"


def check_sketch(root: Path, benchmark: Benchmark, on_image: OnImage) -> CheckReport:
    """Check the sets of ImageNet-to-Sketch that are in a folder."""
    sets = [Place(name, str(root / name), name) for name in benchmark.names() if (root / name).is_dir()]
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
        findings += _check_images(Place(name, str(root), name), domain.source, present, on_image)
    return CheckReport(tuple(summaries), tuple(findings))


def _check_listing(name: str, listing: Listing) -> Iterator[Finding]:
    """Check the folders of a domain."""
    for folder, message in listing.faults():
        yield Finding("error", name, folder, message)
    if "test" not in listing.files:
        yield Finding("warning", name, "", "there is no test split: the domain can be trained but not evaluated")
    for folder in listing.empty:
        yield Finding("warning", name, folder, "the folder has no image: it is no class", "folder without images")
    for label in sorted(listing.classes("train") - listing.classes("test") if "test" in listing.files else ()):
        place = listing.place("train", label)
        yield Finding("warning", name, place, "the class has no test image", "class without a test image")
    pattern = "<class>" if listing.structure.kind == "classes" else "<split>/<class>"
    for file in listing.ignored:
        ending = PurePosixPath(file).suffix.lower()
        what = f"{ending} outside {pattern}/" if ending in SUFFIXES else ending or "file without an ending"
        if ending in UNREAD:
            remedy = f"{ending[1:].upper()} is not read: convert it to JPEG or PNG"
            yield Finding("warning", name, file, remedy, f"{ending} not read (convert them to JPEG or PNG)")
            continue
        yield Finding("warning", name, file, f"not an image of {pattern}/: ignored", f"{what} ignored")


def _lost_classes(place: Place, listing: Listing, findings: Sequence[Finding]) -> Iterator[Finding]:
    """Find the classes of which nothing is left if unreadable images are skipped."""
    skipped = {finding.file for finding in findings if finding.group == SKIPPED}
    for label, files in sorted(listing.files.get("train", {}).items() if skipped else ()):
        if files and skipped.issuperset(files):
            yield Finding("error", place.name, listing.place("train", label), "no train image of the class can be read")


def _check_annotated(domain: Domain, root: Path) -> Iterator[Finding]:
    """Compare a benchmark's annotations with the files on disk."""
    annotated = {item.file: item.image_id for split in SPLITS for item in domain.split(split)}
    folder = f"data/{domain.name}"
    names = FolderSource(root / folder).names()
    present = {f"{folder}/{name}" for name in names if PurePosixPath(name).suffix.lower() in SUFFIXES}
    lost = [f"{annotated[file]} ({file})" for file in annotated if file not in present]
    if lost:
        images = "1 annotated image has" if len(lost) == 1 else f"{len(lost)} annotated images have"
        message = f"{images} no file, such as {', '.join(lost[:EXAMPLES])}"
        yield Finding("error", domain.name, "", message)
    strays = sorted(present - annotated.keys())
    if strays:
        files = "1 file has" if len(strays) == 1 else f"{len(strays)} files have"
        message = f"{files} no annotation, such as {', '.join(strays[:EXAMPLES])}"
        yield Finding("warning", domain.name, "", message)
    for split in ("validation", "test"):
        labels = {item.label for item in domain.split(split)}
        missing = [name for label, name in enumerate(domain.classes) if label not in labels]
        if missing and min(labels, default=-1) >= 0:
            classes = "1 class has" if len(missing) == 1 else f"{len(missing)} classes have"
            message = f"{classes} no {split} image, such as {missing[0]!r}"
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


def _check_images(
    place: Place, source: Source, files: Sequence[tuple[str, str]], on_image: OnImage
) -> Iterator[Finding]:
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
            level: Level = "warning" if place.skips_bad else "error"
            yield Finding(level, place.name, file, image.problem, SKIPPED if place.skips_bad else "")
            continue
        copies[image.digest].setdefault(split, file)
        if image.mode not in COMMON_MODES:
            modes[image.mode].append(file)
    for mode, odd in sorted(modes.items()):
        images_are = "1 image of mode {}: it is" if len(odd) == 1 else f"{len(odd)} images of mode {{}}: they are"
        yield Finding("warning", place.name, odd[0], f"{images_are.format(mode)} converted to RGB")
    for twins in copies.values():
        if "train" in twins and "test" in twins:
            message = f"the same bytes as {twins['train']}: the test accuracy would be too high"
            yield Finding("warning", place.name, twins["test"], message, "test image that is also in train")


BENCHMARK_CHECKS = {DECATHLON.name: check_decathlon, IMAGENET_TO_SKETCH.name: check_sketch}
