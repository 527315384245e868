"""The kernel test passes under sanitizers and, emulated, on Arm."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.makers.native_tests import build, require

PROBE = "int main() { return 0; }\n"
ARM = ("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", "-DCMAKE_EXE_LINKER_FLAGS=-static")
ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


class Sanitizing(NamedTuple):
    """The number of networks to try, and the optimization level with the shortest total time."""

    cases: int
    level: str


SANITIZERS = {"address,undefined": Sanitizing(100, "-O0"), "thread": Sanitizing(20, "-O0")}
ARM_CASES = 60


def _check_compiler(folder: Path, sanitizers: str) -> None:
    """Skip the test if there is no compiler with a sanitizer that runs here."""
    compiler = require(os.environ.get("CXX", "c++"))
    (folder / "probe.cpp").write_text(PROBE)
    flags = [f"-fsanitize={sanitizers}", "-o", str(folder / "probe"), str(folder / "probe.cpp")]
    built = subprocess.run([compiler, *flags], capture_output=True, text=True, check=False)
    if built.returncode or subprocess.run([folder / "probe"], capture_output=True, check=False).returncode:
        pytest.skip(f"the compiler has no {sanitizers} sanitizer that runs here")


def _build(folder: Path, level: str, *settings: str, **environment: str) -> Path:
    build(folder, level, "-DPRUNUS_TESTS=ON", *settings, **environment)
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
    compiler, emulator = require(ARM_COMPILER), require(ARM_EMULATOR)
    output = _assert_correct(ARM_CASES, emulator, _build(tmp_path, "-O1", *ARM, CXX=compiler))
    assert " neondot neon " in output  # with and without the instructions for dot products
