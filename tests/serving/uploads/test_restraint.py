"""A decoder process may use little besides CPU time, and that not without end."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from prunus.serving.uploads.restraint import OutOfTime, cpu_limit

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these limits")
START = "from prunus.serving.uploads.restraint import *; import os, signal; restrain(1_000_000, 3); "


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("open('written', 'w').write('x' * 100_000)", "File too large"),
        ("files = [os.dup(0) for _ in range(50)]", "Too many open files"),
        ("bytes(600 * 2**20)", "MemoryError"),
    ],
)
def test_files_and_memory_are_limited(code: str, said: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    done = _run(f"signal.signal(signal.SIGXFSZ, signal.SIG_IGN); {code}")
    assert done.returncode == 1
    assert said in done.stderr


def test_a_restrained_process_is_nice_and_leaves_its_end_to_the_service() -> None:
    signals = "os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGINT); "
    done = _run(signals + "print(os.nice(0), len(bytes(10**8)))")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(int(subprocess.check_output(["nice"])) + 3), "100000000"]


def test_python_code_is_interrupted_when_its_cpu_time_is_used_up() -> None:
    code = (
        "import time\n"
        "from prunus.serving.uploads.restraint import _counted_seconds as counted\n"
        "start = counted()\n"
        "try:\n"
        "    with cpu_limit(0.1):\n"
        "        while True:\n"
        "            try: sum(range(1000))\n"
        "            except Exception: pass\n"
        "except OutOfTime:\n"
        "    print(0.09 < counted() - start < 0.5)\n"
        "with cpu_limit(0.1): pass\n"
        "while counted() < start + 0.5: pass\n"  # the limit is over
    )
    done = subprocess.run([sys.executable, "-c", START + "\n" + code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.slow
def test_the_system_ends_a_process_that_does_not_notice() -> None:
    blocked = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])\n"
    done = _run(blocked + "with cpu_limit(0.01):\n    while True: pass")
    assert done.returncode == -24  # SIGXCPU


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's clock")
def test_the_limit_starts_at_the_clock_that_the_system_checks() -> None:
    drifted = "time.process_time = lambda: -6.0\n"
    done = _run(drifted + "with cpu_limit(5):\n    while time.clock_gettime(COUNTED) < 1.5: pass\nprint('alive')")
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_a_limit_ends_with_its_block() -> None:
    before = resource.getrlimit(resource.RLIMIT_CPU)
    with cpu_limit(60):
        assert resource.getrlimit(resource.RLIMIT_CPU) != before
    assert resource.getrlimit(resource.RLIMIT_CPU) == before


def test_the_exception_is_not_caught_by_handlers_of_ordinary_errors() -> None:
    assert not issubclass(OutOfTime, Exception)
    with cpu_limit(60):
        assert sum(range(10)) == 45
