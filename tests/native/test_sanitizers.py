"""The native kernels read and write only what is theirs: their own test runs clean under sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # cmake and ninja may be packages
PROBE = "int main() { return 0; }\n"
CASES = 300
LEVELS = {"address,undefined": "-O0", "thread": "-O1"}  # where building and running together take the least time


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


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", LEVELS)
def test_the_kernels_run_clean_under_sanitizers(tmp_path: Path, sanitizers: str) -> None:
    cmake, ninja = _needed("cmake"), _needed("ninja")
    _check_compiler(tmp_path, sanitizers)
    build, environment = tmp_path / "build", os.environ | {"PATH": PATH, "CXXFLAGS": LEVELS[sanitizers]}
    settings = ["-DPRUNUS_TESTS=ON", f"-DPRUNUS_SANITIZE={sanitizers}", "-DCMAKE_BUILD_TYPE=None"]
    settings.append(f"-DCMAKE_MAKE_PROGRAM={ninja}")
    for command in (
        [cmake, "-G", "Ninja", *settings, "-S", str(NATIVE), "-B", str(build)],
        [ninja, "-C", str(build)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
    ran = subprocess.run([build / "kernels_test", str(CASES)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{CASES} cases" in ran.stdout
    assert ": 0 wrong" in ran.stdout
