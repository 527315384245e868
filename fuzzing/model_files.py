"""Damage model files in many ways and check that none crashes, hangs, exhausts memory or answers wrongly.

    python -m fuzzing.model_files [--count 10000] [--seed 0] [--json FILE] [--dtype int8]
    python -m fuzzing.model_files --search [--count 10000] [--seed 0] [--json FILE] [--resume FILE ...]

- Random damage: flipped bits; overwritten, inserted, removed and moved ranges; truncated files.
- Structured damage: header values that are huge, negative, missing or of another type; offsets that overlap or lie
  outside the file; a header length of terabytes.
- Hostile files with a valid checksum: several header values changed at once; operations changed, added, removed and
  reconnected; parts extended or cut; random numbers; other integer operations, wide layers and codings; thousands of
  layers and domains; huge layers without kernels.

Every file must be refused with a BundleError or be read as the original model. A file with a valid checksum may also be
another model: it is inspected and, if it is small enough, run for all domains, and both engines must agree. If all its
operations compute with integers, they must agree exactly. Half of the files are of 8 bits; with --dtype int8, all are.

Batches of files are checked in separate processes with limits for memory and for the seconds per file.

With --search, files are not damaged but mutated towards higher cost (`fuzzing.search`). It fails if one takes more than
`prunus.graph.limits` allows. --resume continues from the results of earlier searches, and adds to their counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fuzzing.children import run_in_child
from fuzzing.damage import DAMAGE, SEALED
from fuzzing.eight_bits import coded_model, with_joint_masks, without_floats
from fuzzing.models import attention_model, image_model, token_model
from fuzzing.rounding import rounded_logits
from fuzzing.search import SearchPlan, search
from prunus.arrays import DType, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import sum_fits
from prunus.bundle.file import bundle_bytes, read_bundle
from prunus.errors import BundleError
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine
from prunus.verbs.inspect import inspect

MAX_SECONDS = 10
MAX_MEGABYTES = 400  # above an idle process; the models have a few kilobytes
MOST_NUMBERS = 2**22  # of all values of a network that is run here; larger ones are valid but slow
MOST_STEPS = 2**13  # operations times domains, for the same reason
MOST_MOVED = 10.0  # times what rounding alone changes
BATCH = 200
Contents = tuple[bytes, ...]
OUTCOMES = ("refused", "the same model", "another model", "another model, too large to run here")


def judge(path: Path, kind: str, whole: Bundle) -> str:
    """Read one file and return the outcome; raise for anything but a refusal or a correct answer."""
    try:
        found = read_bundle(path)
    except BundleError:
        return "refused"
    if kind in SEALED:
        inspect(path)
        return run(path, found)
    assert found.manifest == whole.manifest, "a damaged file was read as another model"
    assert found.arrays.keys() == whole.arrays.keys(), "a damaged file was read as another model"
    assert all(np.array_equal(found.arrays[k], v) for k, v in whole.arrays.items()), "wrong numbers"
    return "the same model"


def run(path: Path, found: Bundle) -> str:
    """Classify images of all domains with both engines and compare their answers."""
    work = [shape[0] * shape[1] * shape[2] for shape in found.manifest.shapes]
    dense = sum(conv.num_kernels * conv.kernel[0] * conv.kernel[1] for conv in found.manifest.convs.values())
    steps = len(found.domains) * len(found.manifest.graph)
    if max(sum(work), dense * len(found.domains), found.manifest.num_features) > MOST_NUMBERS or steps > MOST_STEPS:
        return "another model, too large to run here"
    size = found.manifest.image_size
    images = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)
    try:
        Predictor(path)  # must load; it refuses answers that are not finite, the engines below return them
    except BundleError as error:
        assert found.dtype == "int8", "a file was read, but cannot be run"
        assert "8-bit operation" in str(error), error
        return "refused"
    fast, slow = NativeEngine(found), NumpyEngine(found)
    for domain in found.domains:
        with np.errstate(all="ignore"):
            logits, expected = fast.logits(images, domain), slow.logits(images, domain)
        compare(logits, expected, found, partial(rounded_logits, found, images, domain))
    return "another model"


def compare(logits: Floats, expected: Floats, found: Bundle, rounded: Callable[[], list[Floats]]) -> None:
    """Check that two engines agree, also about which answers are not finite."""
    if found.manifest.integers:
        # where floats are rounded to codes on the way, the engines may round to neighbours
        is_exact = len(found.manifest.integers) == len(found.manifest.graph) and sum_fits(found.manifest.num_features)
        assert not is_exact or np.array_equal(logits, expected), "the engines disagree about integers"
        return
    finite = np.isfinite(expected)
    is_known = np.array_equal(finite, np.isfinite(logits))
    error = float(np.abs(logits[finite] - expected[finite]).max(initial=0))
    if is_known and error <= 1e-2 * max(1.0, float(np.abs(expected[finite]).max(initial=0))):
        return
    # behind weights of 1e20, rounding may decide what softmax chooses and what overflows there: then no engine is right
    others = rounded() if any(operation.op == "attention" for operation in found.manifest.graph) else []
    if any(not np.array_equal(finite, np.isfinite(other)) for other in others):
        return
    assert is_known, "one engine's answer is finite, the other's is not"
    moved = max((float(np.abs(other[finite] - expected[finite]).max(initial=0)) for other in others), default=0.0)
    assert error <= MOST_MOVED * moved, f"the engines disagree by {error}, and rounding changes {moved}"


def damaged(index: int, seed: int, contents: Contents) -> tuple[str, bytes, bytes]:
    """Return one kind of damage, the damaged content and the original content."""
    rng = np.random.default_rng((seed, index))
    kind = list(DAMAGE)[index % len(DAMAGE)]
    content = contents[int(rng.integers(len(contents)))]
    return kind, DAMAGE[kind](content, rng), content


FLOATS: tuple[tuple[Bundle, DType], ...] = (
    (image_model(), "float32"),
    (image_model(), "float16"),
    (token_model(), "float32"),
    (token_model(), "bfloat16"),
)
TO_CODE = (
    image_model(),
    without_floats(image_model()),
    with_joint_masks(without_floats(image_model())),
    token_model(),
    without_floats(attention_model()),
)
CODED = tuple(bundle_bytes(coded_model(bundle), "int8") for bundle in TO_CODE)
CONTENTS = (*(bundle_bytes(bundle, dtype) for bundle, dtype in FLOATS), *CODED)


def judge_batch(indices: range, seed: int, contents: Contents, report: int) -> None:
    """Check some files in this process; write a line before and after each."""
    limit = _data_bytes() + MAX_MEGABYTES * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    with tempfile.TemporaryDirectory() as folder, os.fdopen(report, "w") as lines:
        path = Path(folder) / "m.prunus"
        wholes = {}
        for content in contents:
            path.write_bytes(content)
            wholes[content] = read_bundle(path)
        for index in indices:
            print(json.dumps([index, list(DAMAGE)[index % len(DAMAGE)], None]), file=lines, flush=True)
            kind, changed, content = damaged(index, seed, contents)
            path.write_bytes(changed)
            signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # of processor time; not handled: it ends the process
            outcome = judge(path, kind, wholes[content])
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps([index, kind, outcome]), file=lines, flush=True)


def run_batch(indices: range, seed: int, contents: Contents = CONTENTS) -> list[tuple[int, str, str | None]]:
    """Check some files in a separate process; if it dies, return the file at fault without an outcome."""
    entries, code = run_in_child(lambda writing: judge_batch(indices, seed, contents, writing))
    if code:
        print(f"the process ended with {code}", file=sys.stderr)
        return [(entries[-1][0] if entries else indices.start, entries[-1][1] if entries else "the first", None)]
    done = [(index, kind, outcome) for index, kind, outcome in entries if outcome is not None]
    assert len(done) == len(indices)
    return done


def _data_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmData"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dtype", choices=("all", "int8"), default="all", help="what files are damaged")
    parser.add_argument("--search", action="store_true", help="climb towards the most expensive accepted file")
    parser.add_argument("--resume", type=Path, nargs="*", default=[], help="results of searches to continue")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop searching after so many")
    arguments = parser.parse_args()
    NativeEngine(image_model())  # fails early without the native engine
    if arguments.search:
        search(SearchPlan(arguments.count, arguments.seed, arguments.seconds, arguments.resume, arguments.json))
        return
    damage(arguments)


def damage(arguments: argparse.Namespace) -> None:
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in DAMAGE}
    contents = CODED if arguments.dtype == "int8" else CONTENTS
    batches = range(0, arguments.count, BATCH)
    for start in track(batches, description="damaging", console=Console(stderr=True)):
        indices = range(start, min(start + BATCH, arguments.count))
        for index, kind, outcome in run_batch(indices, arguments.seed, contents):
            if outcome is None:
                kept = Path(f"fuzz-failure-{arguments.seed}-{index}.prunus")
                kept.write_bytes(damaged(index, arguments.seed, contents)[1])
                sys.exit(f"failed on {kind}; the file is kept as {kept}")
            outcomes[kind][outcome] += 1
    table = Table(title=f"{arguments.count} damaged files; at most {MAX_MEGABYTES} MB and {MAX_SECONDS} seconds each")
    for name in ("damage", *OUTCOMES):
        table.add_column(name, justify="left" if name == "damage" else "right")
    for kind, counts in outcomes.items():
        table.add_row(kind, *(str(counts[name]) for name in OUTCOMES))
    Console(width=110).print(table)
    print(describe_machine())
    if arguments.json:
        result = {"count": arguments.count, "dtype": arguments.dtype, "seed": arguments.seed}
        result |= {"max_megabytes": MAX_MEGABYTES}
        result |= {"max_seconds": MAX_SECONDS, "outcomes": outcomes, "machine": describe_machine()}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
