"""Builds the native tests, which need a compiler, cmake and ninja but no Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
PATH = (
    f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # cmake and ninja may be Python packages
)
ONE_FILE = (
    "-DCMAKE_UNITY_BUILD=ON",
    "-DCMAKE_UNITY_BUILD_BATCH_SIZE=0",
)  # saves parsing the standard headers again and again


def require(tool: str) -> str:
    """Return the path of a tool, or skip the test."""
    path = shutil.which(tool, path=PATH)
    if path is None:
        pytest.skip(f"{tool} is not installed")
    return path


def build(folder: Path, level: str, *settings: str, **environment: str) -> None:
    """Build a native test into a folder, at an optimization level."""
    cmake, ninja = require("cmake"), require("ninja")
    options = ["-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_MAKE_PROGRAM={ninja}", *ONE_FILE, *settings]
    for command in (
        [cmake, "-G", "Ninja", *options, "-S", str(NATIVE), "-B", str(folder)],
        [ninja, "-C", str(folder)],
    ):
        variables = os.environ | {"PATH": PATH, "CXXFLAGS": level} | environment
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        assert done.returncode == 0, done.stdout + done.stderr
