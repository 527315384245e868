"""Search for the most expensive model file that is accepted: mutate those that cost most, and measure.

Each file is drawn by mutating one of the most expensive files so far, as estimated or as measured. If its header is
accepted and its estimate is among the highest so far, it is written, loaded and used to classify an image, and so is
one of every SAMPLED others. Seconds are of processor time, with one thread. Bytes are resident ones, above those of
the process before its first file.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

from fuzzing.children import run_in_child
from fuzzing.genomes import Gene, Genome, accepted_header, content_of, mutate
from prunus.bundle.file import read_bundle
from prunus.bundle.header import FileHeader
from prunus.errors import BundleError
from prunus.files import write_atomically
from prunus.graph.costs import Cost, allowed_cost, file_cost
from prunus.runtime.engine import Engine
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.timing.machine import describe_machine

Result = TypeVar("Result")
Goal = Literal["load_seconds", "load_bytes", "native_seconds", "native_bytes", "numpy_seconds", "numpy_bytes"]
TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds; some systems count the time of a process in steps no larger than this
GOALS: tuple[Goal, ...] = (
    "load_seconds",
    "load_bytes",
    "native_seconds",
    "native_bytes",
    "numpy_seconds",
    "numpy_bytes",
)
WEIGHTS = (0.3, 0.3, 0.1, 0.15, 0.05, 0.1)  # how often each goal is climbed towards
SAMPLED = 40
EXPLORED = 0.15  # the share of files that begin from a cheap one
BATCH = 40  # files that are measured in one process
POPULATION = 6  # the most expensive files that are kept for each goal
MOST_SECONDS = 60  # of processor time for one file, after which its process is ended


class Found(BaseModel, frozen=True):
    """A file and what it took, as shares of what is allowed."""

    genome: Genome
    file_bytes: int
    shares: dict[Goal, float]
    measured: dict[Goal, float]


class Likely(BaseModel, frozen=True):
    """A file and its estimated cost for a goal, as a share of what is allowed."""

    genome: Genome
    goal: Goal
    share: float


class Findings(BaseModel):
    """What a search has found so far: the files that took most for each goal, and those with the highest estimates."""

    files: int = 0
    accepted: int = 0
    measured: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    best: dict[Goal, list[Found]] = Field(default_factory=dict)

    likely: dict[Goal, list[Likely]] = Field(default_factory=dict)

    def consider(self, likely: Likely) -> bool:
        """Keep a file if its estimate is new and among the highest for its goal; return whether it is."""
        known = self.likely.get(likely.goal, [])
        if any(entry.share == likely.share for entry in known):  # the mutation changed nothing that costs
            return False
        self.likely[likely.goal] = sorted([*known, likely], key=lambda entry: -entry.share)[:POPULATION]
        return likely in self.likely[likely.goal]

    def add(self, found: Found) -> None:
        """Keep a file if it is among the most expensive for a goal."""
        for goal in GOALS:
            if goal in found.shares:
                ranked = sorted([*self.best.get(goal, []), found], key=lambda entry: -entry.shares[goal])
                self.best[goal] = ranked[:POPULATION]

    def merge(self, other: Findings) -> None:
        """Add what another search found."""
        self.files += other.files
        self.accepted += other.accepted
        self.measured += other.measured
        for entries in other.likely.values():
            for entry in entries:
                self.consider(entry)
        self.refused = dict(Counter(self.refused) + Counter(other.refused))
        for found in {entry.genome: entry for entries in other.best.values() for entry in entries}.values():
            self.add(found)

    def worst(self) -> dict[Goal, Found]:
        """Return the most expensive file for each goal."""
        return {goal: entries[0] for goal, entries in self.best.items() if entries}


START = (
    Genome(),
    Genome(domains=50, genes=(Gene(repeat=20, width=16),)),
    Genome(side=128, genes=(Gene(kind="pool", kernel=(8, 8), pad=4, repeat=9, is_chain=False),)),
    Genome(side=64, genes=(Gene(width=64), Gene(kind="affine", activation="mish", repeat=20))),
    Genome(genes=(Gene(kind="append_zeros", width=500), Gene(kernel=(1, 1), pad=0, width=500, repeat=4)), scale=1e37),
    Genome(filler=1000, genes=(Gene(kind="append_zeros", width=64), Gene(kind="add", repeat=500))),
)


def measure(path: Path, baseline: int, goal: Goal) -> dict[Goal, float]:
    """Load a file, and classify an image if that is the goal; return what that took."""
    kind = goal.partition("_")[0]
    bundle, seconds, peak = _timed(lambda: read_bundle(path))
    if kind == "numpy":
        engine: Engine = NumpyEngine(bundle)
    else:
        engine, more, later_peak = _timed(lambda: NativeEngine(bundle))
        seconds, peak = seconds + more, max(peak, later_peak)
    taken: dict[Goal, float] = {"load_seconds": seconds, "load_bytes": max(0, peak - baseline)}
    if kind == "load":
        return taken
    side = bundle.manifest.image_size
    image = np.random.default_rng(0).standard_normal((1, 3, side, side), np.float32)
    with np.errstate(all="ignore"):
        _, seconds, peak = _timed(lambda: engine.logits(image, bundle.domains[-1]))
    if kind == "native":
        return taken | {"native_seconds": seconds, "native_bytes": max(0, peak - baseline)}
    return taken | {"numpy_seconds": seconds, "numpy_bytes": max(0, peak - baseline)}


def _timed(work: Callable[[], Result]) -> tuple[Result, float, int]:
    """Return the result of some work, its seconds of processor time and the peak of resident bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak
    began, started = time.perf_counter(), time.process_time()
    result = work()
    seconds, passed = time.process_time() - started, time.perf_counter() - began
    return result, seconds or min(passed, TICK), _status("VmHWM")


def estimated_share(header: FileHeader, values: int, goal: Goal) -> float:
    """Return the estimated cost of a file as a share of what is allowed."""
    claims = header.claims(values)
    cost = file_cost(header.manifest.graph, header.manifest.shapes, claims)
    return _by_goal(cost)[goal] / _by_goal(allowed_cost(claims.data_bytes))[goal]


def _by_goal(cost: Cost) -> dict[Goal, float]:
    return {
        "load_seconds": cost.load_seconds,
        "load_bytes": cost.load_bytes,
        "native_seconds": cost.image_seconds,
        "native_bytes": cost.image_bytes,
        "numpy_seconds": cost.image_seconds,
        "numpy_bytes": cost.image_bytes,
    }


def measured(genome: Genome, header: FileHeader, path: Path, baseline: int, goal: Goal) -> Found | str:
    """Write and measure the file of a genome; return why it is refused if it is."""
    content = content_of(genome, header)
    path.write_bytes(content)
    try:
        taken = measure(path, baseline, goal)
    except BundleError as error:
        return _kind(str(error))
    most = _by_goal(allowed_cost(len(content)))
    shares: dict[Goal, float] = {goal: taken[goal] / most[goal] for goal in taken}
    return Found(genome=genome, file_bytes=len(content), shares=shares, measured=taken)


def judged(findings: Findings, genome: Genome, goal: Goal, path: Path, baseline: int) -> Found | Likely | str:
    """Return what a file took, its estimate if it is not worth measuring, or why it is refused."""
    accepted = accepted_header(genome)
    if isinstance(accepted, str):
        return _kind(accepted)
    header, values = accepted
    likely = Likely(genome=genome, goal=goal, share=estimated_share(header, values, goal))
    if not findings.consider(likely) and findings.files % SAMPLED:
        return likely
    outcome = measured(genome, header, path, baseline, goal)
    _release()
    if isinstance(outcome, Found):
        findings.add(outcome)
    return outcome


def _kind(problem: str) -> str:
    kinds = {
        "loading it would take": "too much to load",
        "classifying one image": "too much for an image",
        "larger than the files": "too large for this search",
        "native engine cannot": "refused by the native engine",
    }
    return next((kind for text, kind in kinds.items() if text in problem), "another limit, or inconsistent")


def search_batch(findings: Findings, seed: tuple[int, int], deadline: float, report: int) -> None:
    """Draw, judge and report some files in this process."""
    rng = np.random.default_rng(seed)
    gc.collect()
    gc.freeze()
    baseline = _status("VmRSS")
    with tempfile.TemporaryDirectory() as folder, os.fdopen(report, "w") as lines:
        for _ in range(BATCH):
            findings.files += 1
            if time.monotonic() > deadline:
                break
            goal = GOALS[int(rng.choice(len(GOALS), p=WEIGHTS))]
            genome = mutate(_parent(findings, goal, rng), rng)
            print(genome.model_dump_json(), file=lines, flush=True)  # of the file at fault, if the process dies
            signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
            outcome = judged(findings, genome, goal, Path(folder) / "m.prunus", baseline)
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps(outcome if isinstance(outcome, str) else outcome.model_dump()), file=lines, flush=True)


def _parent(findings: Findings, goal: Goal, rng: np.random.Generator) -> Genome:
    """Draw one of the most expensive files, the first ones more often, or a cheap one."""
    measured_or_likely = findings.best if rng.random() < 0.5 else findings.likely
    entries = measured_or_likely.get(goal)
    if not entries or rng.random() < EXPLORED:
        return START[int(rng.integers(len(START)))]
    return entries[int(len(entries) * rng.random() ** 2)].genome


def run_search_batch(findings: Findings, seed: tuple[int, int], deadline: float) -> None:
    """Search in a separate process, and add what it found; end this one if that process dies."""
    entries, code = run_in_child(lambda writing: search_batch(findings, seed, deadline, writing))
    if code:
        sys.exit(f"the process ended with {code} on the file {json.dumps(entries[-1])}")
    for outcome in entries[1::2]:
        findings.files += 1
        if isinstance(outcome, str):
            findings.refused[outcome] = findings.refused.get(outcome, 0) + 1
            continue
        findings.accepted += 1
        if "shares" in outcome:
            findings.measured += 1
            findings.add(Found.model_validate(outcome))
        else:
            findings.consider(Likely.model_validate(outcome))


def _release() -> None:
    """Return freed memory to the system, so that it is not counted for the next file."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


@dataclass(frozen=True)
class SearchPlan:
    """How many files to draw, from which seed, for how long, after which earlier searches, and where to write."""

    count: int
    seed: int
    seconds: float
    resumed: Sequence[Path]
    out: Path | None


def search(plan: SearchPlan) -> None:
    """Search, print the most expensive files, and end with an error if one takes more than is allowed."""
    findings = Findings()
    for path in plan.resumed:
        findings.merge(Findings.model_validate(json.loads(path.read_text())["findings"]))
    deadline = time.monotonic() + plan.seconds
    before, batch = findings.files, 0
    while findings.files - before < plan.count and time.monotonic() < deadline:
        run_search_batch(findings, (plan.seed, batch), deadline)
        batch += 1
    table = Table(title=f"{findings.files} files, {findings.accepted} accepted, {findings.measured} measured")
    for name in ("goal", "file", "taken", "of what is allowed"):
        table.add_column(name, justify="left" if name == "goal" else "right")
    for goal, found in findings.worst().items():
        amount = found.measured[goal]
        taken = f"{amount:.2f} s" if goal.endswith("seconds") else f"{amount / 1e6:,.0f} MB"
        table.add_row(goal, f"{found.file_bytes:,} bytes", taken, f"{100 * found.shares[goal]:.0f} %")
    Console(width=110).print(table)
    print(describe_machine())
    if plan.out:
        result = {"machine": describe_machine(), "findings": findings.model_dump(mode="json", exclude_defaults=True)}
        write_atomically(plan.out, (json.dumps(result, indent=1) + "\n").encode())
    too_much = {goal: found for goal, found in findings.worst().items() if found.shares[goal] > 1}
    if too_much:
        sys.exit(f"above the bounds: {', '.join(too_much)}")
