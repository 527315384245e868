"""Look for what is wrong with image data before a training finds out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from prunus.benchmarks import DECATHLON, Benchmark, find_benchmark
from prunus.config import DEMO_PREFIX
from prunus.data.checks import Finding, check_annotated, check_counts, check_images, check_listing
from prunus.data.decathlon import annotation_file, check_root, open_decathlon_set
from prunus.data.domains import SPLITS, Listing, list_files
from prunus.data.sources import describe_folder, open_source
from prunus.errors import DataError

OnImage = Callable[[], None]


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


def check(path: str | Path, benchmark: str | None = None, on_image: OnImage = lambda: None) -> CheckReport:
    """Check a domain (a folder or zip with a train split), a folder of domains, or a benchmark; decodes every image."""
    if benchmark == DECATHLON.name:
        return _check_decathlon(Path(path), on_image)
    known = find_benchmark(benchmark) if benchmark else None
    summaries: list[DomainSummary] = []
    findings: list[Finding] = []
    for name, place in _benchmark_folders(Path(path), known) if known else find_domains(path):
        try:
            source = open_source(place)
        except DataError as error:
            findings.append(Finding("error", name, Path(place).name, str(error)))
            continue
        listing = list_files(source)
        summaries.append(_summarize(name, listing))
        files = [(s, file) for s, classes in listing.files.items() for label in classes.values() for file in label]
        findings += [*check_listing(name, listing), *check_images(name, source, files, on_image)]
        if known:
            findings += check_counts(
                known, known.find(name), summaries[-1].classes, summaries[-1].images.get("test", 0)
            )
    return CheckReport(tuple(summaries), tuple(findings))


def find_domains(path: str | Path) -> list[tuple[str, str]]:
    """List the domains at a place as (name, path)."""
    name = Path(path).resolve().name.removesuffix(".zip").removeprefix(DEMO_PREFIX)
    if "train" in list_files(open_source(path)).files:
        return [(name, str(path))]
    if (Path(path) / "annotations").is_dir() and (Path(path) / "data").is_dir():
        raise DataError(f"{path} looks like the Visual Decathlon; check it with --benchmark decathlon")
    inside = sorted(Path(path).iterdir()) if Path(path).is_dir() else []
    entries = [
        entry for entry in inside if not entry.name.startswith(".") and (entry.is_dir() or entry.suffix == ".zip")
    ]
    if not entries:
        raise DataError(
            f"{path} holds no domain: expected <split>/<class>/<image>, or a folder of such folders or zip files"
        )
    return [(entry.name.removesuffix(".zip"), str(entry)) for entry in entries]


def _benchmark_folders(root: Path, benchmark: Benchmark) -> list[tuple[str, str]]:
    found = [(name, str(root / name)) for name in benchmark.names() if (root / name).is_dir()]
    if not found:
        wanted = ", ".join(benchmark.names())
        raise DataError(f"{root} holds no set of {benchmark.title}: looked for {wanted}; {describe_folder(root)}")
    return found


def _check_decathlon(root: Path, on_image: OnImage) -> CheckReport:
    check_root(root)
    summaries: list[DomainSummary] = []
    findings: list[Finding] = []
    for each in DECATHLON.sets:
        if not any(annotation_file(root, each.name, ending).exists() for ending in ("train", "val", "test_stripped")):
            findings.append(Finding("warning", each.name, "", "the set has no annotation files: it is left out"))
            continue
        try:
            domain = open_decathlon_set(root, each.name)
        except DataError as error:
            findings.append(Finding("error", each.name, "", str(error)))
            continue
        counts = {split: len(domain.split(split)) for split in SPLITS}
        summaries.append(DomainSummary(each.name, len(domain.classes), counts))
        present = [(s, item.file) for s in SPLITS for item in domain.split(s) if (root / item.file).exists()]
        findings += [
            *check_annotated(domain, root),
            *check_counts(DECATHLON, each, len(domain.classes), counts["test"]),
        ]
        findings += check_images(each.name, domain.source, present, on_image)
    return CheckReport(tuple(summaries), tuple(findings))


def _summarize(name: str, listing: Listing) -> DomainSummary:
    counts = {split: sum(map(len, classes.values())) for split, classes in listing.files.items()}
    return DomainSummary(name, len(listing.classes("train")), counts)
