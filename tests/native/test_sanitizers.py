"""The kernel test passes under sanitizers and, emulated, on Arm."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PATH = (
    f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # cmake and ninja may be Python packages
)
PROBE = "int main() { return 0; }\n"
ONE_FILE = (
    "-DCMAKE_UNITY_BUILD=ON",
    "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0",
)  # saves parsing the standard headers again and again
ARM = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_EXE_LINKER_FLAGS=-static")
ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


class Sanitizing(NamedTuple):
    """The number of networks to try, and the optimization level with the shortest total time."""

    cases: int
    level: str


SANITIZERS = {"address,undefined": Sanitizing(100, "-O0"), "thread": Sanitizing(20, "-O0")}
ARM_CASES = 60


def _require(tool: str) -> str:
    path = shutil.which(tool, path=PATH)
    if path is None:
        pytest.skip(f"{tool} is not installed")
    return path


def _check_compiler(folder: Path, sanitizers: str) -> None:
    """Skip the test if there is no compiler with a sanitizer that runs here."""
    compiler = _require(os.environ.get("CXX", "c++"))
    (folder / "probe.cpp").write_text(PROBE)
    flags = [f"-fsanitize={sanitizers}", "-o", str(folder / "probe"), str(folder / "probe.cpp")]
    built = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if built.returncode or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode:
        pytest.skip(f"the compiler has no {sanitizers} sanitizer that runs here")


def _build(folder: Path, level: str, *settings: str, **environment: str) -> Path:
    """Build the kernel test."""
    cmake, ninja = _require("cmake"), _require("ninja")
    options = ["-DPRUNUS_TESTS=ON", "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_MAKE_PROGRAM={ninja}", *ONE_FILE, *settings]
    for command in (
        [cmake, "-G", "Ninja", *options, "-S", str(NATIVE), "-B", str(folder)],
        [ninja, "-C", str(folder)],
    ):
        variables = os.environ | {"PATH": PATH, "CXXFLAGS": level} | environment
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "kernels_test"


def _assert_correct(cases: int, *command: str | Path) -> str:
    # the test asks for more memory than there is, on purpose
    options = {"ASAN_OPTIONS": "allocator_may_return_null=1", "TSAN_OPTIONS": "allocator_may_return_null=1"}
    ran = subprocess.run([*command, str(cases)], capture_output=True, text=True, check=False, env=os.environ | options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{cases} cases" in ran.stdout
    assert ": 0 wrong" in ran.stdout
    return ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", SANITIZERS)
def test_the_kernels_run_clean_under_sanitizers(tmp_path: Path, sanitizers: str) -> None:
    _check_compiler(tmp_path, sanitizers)
    cases, level = SANITIZERS[sanitizers]
    _assert_correct(cases, _build(tmp_path / "build", level, f"-DPRUNUS_SANITIZE={sanitizers}"))


@pytest.mark.slow
def test_the_kernels_of_arm_are_exact_under_emulation(tmp_path: Path) -> None:
    compiler, emulator = _require(ARM_COMPILER), _require(ARM_EMULATOR)
    output = _assert_correct(ARM_CASES, emulator, _build(tmp_path, "-O1", *ARM, CXX=compiler))
    assert " neon" in output
