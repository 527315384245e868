"""The native kernels read and write only what is theirs: their own test runs clean under sanitizers, and on Arm."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # cmake and ninja may be packages
PROBE = "int main() { return 0; }\n"
ONE_FILE = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0")  # most of the time went into standard headers
ARM = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_EXE_LINKER_FLAGS=-static")
ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


class Sanitizing(NamedTuple):
    """How many networks are tried, and at which level building and running together take the least time."""

    cases: int
    level: str


SANITIZERS = {"address,undefined": Sanitizing(100, "-O0"), "thread": Sanitizing(20, "-O0")}
ARM_CASES = 60


def _needed(tool: str) -> str:
    found = shutil.which(tool, path=PATH)
    if found is None:
        pytest.skip(f"{tool} is not installed")
    return found


def _check_compiler(folder: Path, sanitizers: str) -> None:
    """Skip where the compiler, or its library of a sanitizer, is missing, or this system does not run it."""
    compiler = _needed(os.environ.get("CXX", "c++"))
    (folder / "probe.cpp").write_text(PROBE)
    flags = [f"-fsanitize={sanitizers}", "-o", str(folder / "probe"), str(folder / "probe.cpp")]
    built = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if built.returncode or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode:
        pytest.skip(f"the compiler has no {sanitizers} sanitizer that runs here")


def _build(folder: Path, level: str, *settings: str, **environment: str) -> Path:
    """Build the kernels' test."""
    cmake, ninja = _needed("cmake"), _needed("ninja")
    own = ["-DPRUNUS_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_MAKE_PROGRAM={ninja}", *ONE_FILE, *settings]
    for command in (
        [cmake, "-G", "Ninja", *own, "-S", str(NATIVE), "-B", str(folder)],
        [ninja, "-C", str(folder)],
    ):
        variables = os.environ | {"PATH": PATH, "CXXFLAGS": level} | environment
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "kernels_test"


def _assert_right(cases: int, *command: str | Path) -> str:
    ran = subprocess.run([*command, str(cases)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{cases} cases" in ran.stdout
    assert ": 0 wrong" in ran.stdout
    return ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", SANITIZERS)
def test_the_kernels_run_clean_under_sanitizers(tmp_path: Path, sanitizers: str) -> None:
    _check_compiler(tmp_path, sanitizers)
    cases, level = SANITIZERS[sanitizers]
    _assert_right(cases, _build(tmp_path / "build", level, f"-DPRUNUS_SANITIZE={sanitizers}"))


@pytest.mark.slow
def test_the_kernels_of_arm_are_exact_under_emulation(tmp_path: Path) -> None:
    compiler, emulator = _needed(ARM_COMPILER), _needed(ARM_EMULATOR)
    said = _assert_right(ARM_CASES, emulator, _build(tmp_path, "-O1", *ARM, CXX=compiler))
    assert " neon" in said
