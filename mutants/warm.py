"""Runs tests in forked processes that find the slow imports done: python -m mutants.warm, one JSON request a line.

The package itself is imported by each fork, so that a fork runs the code that lies on disk when it starts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import hypothesis
import pytest

SLOW_IMPORTS = (
    *(
        "numpy",
        "torch",
        "torch.func",
        "torch.fx",
        "torchvision.transforms.v2",
        "PIL.Image",
        "safetensors.torch",
        "timm",
    ),
    *("pydantic", "rich.console", "typer", "fastapi", "uvicorn", "httpx", "matplotlib", "lazy_loader"),
    *("hypothesis.stateful", "schemathesis.pytest.plugin", "anyio.pytest_plugin"),
)
PROFILE = "mutants"
FAILED = "failed"
PASSED = "passed"
OUT_OF_TIME = "out of time"


@dataclass(frozen=True)
class Request:
    """Tests to run until one fails, and the seconds that they may take."""

    arguments: list[str]
    seconds: float
    log: str


@dataclass(frozen=True)
class Reply:
    """What happened: the test that failed or was running at the end, and for how long that one ran."""

    outcome: str
    test: str
    seconds: float
    test_seconds: float


class Witness:
    """A plugin that writes down which test runs, and which one failed first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Run tests of many drawn examples last, since one test that fails is enough."""
        items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Write down a test that starts."""
        self.path.write_text(json.dumps(["running", nodeid, time.monotonic()]))

    def pytest_exception_interact(self, node: object) -> None:
        """Write down what failed: a test, or a file that cannot be imported."""
        self.path.write_text(json.dumps(["failed", getattr(node, "nodeid", ""), time.monotonic()]))


def answer(request: Request) -> Reply:
    """Fork, run the tests, and wait for them."""
    witness = Path(f"{request.log}.test")
    witness.unlink(missing_ok=True)
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        _run_tests(request, witness)
    code = _wait(child, begin + request.seconds)
    end = time.monotonic()
    _state, test, since = json.loads(witness.read_text()) if witness.exists() else ("", "", begin)
    outcome = OUT_OF_TIME if code is None else PASSED if code in (0, 5) else FAILED  # 5: no tests were selected
    return Reply(outcome, test, end - begin, end - since)


def _run_tests(request: Request, witness: Path) -> None:
    os.setsid()
    log = os.open(request.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # the first example that fails is enough: shrinking it takes far longer than finding it
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(PROFILE, deadline=None, max_examples=50, derandomize=True, phases=phases)
    code = 1
    try:
        code = int(pytest.main(request.arguments, plugins=[Witness(witness)]))
    except BaseException:  # this process ends here, whatever happens
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait(child: int, deadline: float) -> int | None:
    code = None
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # also what the tests have started
    if code is None and deadline <= time.monotonic():
        os.waitpid(child, 0)
    return code


def main() -> None:
    """Answer requests until there are no more."""
    for name in SLOW_IMPORTS:
        __import__(name)
    assert not any(name.split(".")[0] == "prunus" for name in sys.modules)
    for line in sys.stdin:
        print(json.dumps(asdict(answer(Request(**json.loads(line))))), flush=True)


if __name__ == "__main__":
    main()
