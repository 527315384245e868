"""Judges one mutant: the nearest tests first, the slow ones last, until one of them fails."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from mutants.nearby import mirrored, nearby
from mutants.places import Place, mutated
from mutants.tree import changed
from mutants.warm import FAILED, OUT_OF_TIME, PASSED, PROFILE, Reply, Request

OPTIONS = [
    *("-x", "--tb=line", f"--hypothesis-profile={PROFILE}", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins whose modules the slow imports include
]
STEP_SECONDS = 60  # of a step, unless told; a step that is not over by then has noticed nothing
HANGS_AFTER = 0.7  # of a step: one test that takes so long has noticed something, if it passes without the mutant
KILLED, SURVIVED = "killed", "survived"
STEPS = (("mirrored", "not slow", 1), ("nearby", "not slow", 1), ("mirrored", "slow", 3), ("nearby", "slow", 1))


@dataclass(frozen=True)
class Verdict:
    """What the tests say about a mutant, and the test that noticed it."""

    outcome: str
    test: str
    seconds: float


class Tests:
    """A process that has the slow imports done and runs tests of the copy."""

    def __init__(self, tree: Path, python: Path, seconds: float = STEP_SECONDS) -> None:
        self.tree = tree
        self.seconds = seconds
        self.log = tree / "tests.log"
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        environment = {**os.environ, **threads, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTHONPATH", None)
        command = ["nice", "-n", "10", str(python), "-m", "mutants.warm"]
        self.process = subprocess.Popen(
            command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Tests:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    def run(self, arguments: list[str], steps: int = 3) -> Reply:
        """Run tests until one fails, or for the time of some steps."""
        assert self.process.stdin is not None and self.process.stdout is not None
        request = Request([*OPTIONS, *arguments], steps * self.seconds, str(self.log))
        self.process.stdin.write(json.dumps(asdict(request)) + "\n")
        self.process.stdin.flush()
        reply = Reply(**json.loads(self.process.stdout.readline()))
        if reply.outcome == FAILED and not reply.test:
            raise RuntimeError(f"pytest ended without running a test:\n{self.log.read_text()[-3000:]}")
        return reply


def check_copy(tests: Tests) -> None:
    """Check that the copy is what the tests import: they pass, and a change that must be noticed is."""
    file = "tests/losses/test_budget.py"
    path = tests.tree / "src/prunus/losses/budget.py"
    if tests.run([file]).outcome != PASSED:
        raise RuntimeError(f"{file} fails without a mutant:\n{tests.log.read_text()[-3000:]}")
    with changed(path, path.read_text().replace("return Constraint(", "return Constraint(1 + ")):
        if tests.run([file]).outcome != FAILED:
            raise RuntimeError(f"{file} does not notice a change of {path}; is another copy of the package imported?")


def judge(tests: Tests, place: Place, unfit: frozenset[str]) -> Verdict:
    """Run the tests near a mutant; `unfit` are tests that fail without it."""
    path = tests.tree / "src/prunus" / place.module
    code = mutated(path.read_text(), place)
    if code is None:
        raise ValueError(f"{place} cannot be made; was the copy brought up to date?")
    seconds = 0.0
    with changed(path, code):
        for files, mark, steps in STEPS:
            chosen = _files(tests.tree, place.module, files)
            if chosen:
                reply = tests.run([*chosen, "-m", mark, *(f"--deselect={test}" for test in unfit)], steps)
                seconds += reply.seconds
                if _noticed(reply, steps * tests.seconds):
                    return Verdict(KILLED, reply.test, round(seconds, 1))
    return Verdict(SURVIVED, "", round(seconds, 1))


def unfit_of(tests: Tests, names: set[str]) -> set[str]:
    """Return the tests that fail without a mutant; a file is named where importing it failed."""
    found = set()
    for file in sorted({name.split("::")[0] for name in names}):
        chosen = sorted(name for name in names if name.split("::")[0] == file and name != file)
        if tests.run(chosen or [file, "--collect-only"]).outcome != PASSED:
            found |= {name for name in chosen or [file] if tests.run([name]).outcome != PASSED}
    return found


def _noticed(reply: Reply, seconds: float) -> bool:
    hangs = reply.outcome == OUT_OF_TIME and reply.test_seconds > HANGS_AFTER * seconds
    return reply.outcome == FAILED or hangs


def _files(tree: Path, module: str, kind: str) -> list[str]:
    own = mirrored(tree, module)
    if kind == "mirrored":
        return [own.relative_to(tree).as_posix()] if own else []
    return [path.relative_to(tree).as_posix() for path in nearby(tree, module) if path != own]
