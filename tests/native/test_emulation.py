"""The 8-bit kernels of instruction sets that this processor may lack are exact when their instructions are emulated."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from tests.makers.native_tests import build, require

CASES = 60
SETS = " avx512vnni avx512 avxvnni emulated"
PROBE = "#include <simde/x86/avx512.h>\nint main() { return 0; }\n"


def _require_emulation(folder: Path) -> None:
    """Skip the test on other processors, and where SIMDe is not installed."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("these instruction sets belong to another kind of processor")
    compiler = require(os.environ.get("CXX", "c++"))
    (folder / "probe.cpp").write_text(PROBE)
    found = subprocess.run([compiler, "-fsyntax-only", str(folder / "probe.cpp")], capture_output=True, check=False)
    if found.returncode:
        pytest.skip("SIMDe is not installed")


@pytest.mark.slow
def test_kernels_of_other_processors_are_exact_under_emulation(tmp_path: Path) -> None:
    _require_emulation(tmp_path)
    build(tmp_path / "build", "-O1", "-DPRUNUS_EMULATE=ON")
    ran = subprocess.run([tmp_path / "build/emulated_test", str(CASES)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{CASES} cases,{SETS}: 0 wrong" in ran.stdout
