"""Fail if a wheel lacks the native module, or if the wheel for later versions of Python is missing.

python3 .github/check_wheels.py FOLDER
"""

import sys
import zipfile
from pathlib import Path

NATIVE = "prunus/runtime/_native"
LATER = "-cp312-abi3-"  # the stable ABI that nanobind uses begins with Python 3.12


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the wheels of a folder."""
    wheels = sorted(folder.glob("prunus-[0-9]*.whl"))
    found = [f"{path.name} has no native module" for path in wheels if not _has_native(path)]
    if not any(LATER in path.name for path in wheels):
        found.append(f"{folder} has no wheel with {LATER} in its name; it has {[path.name for path in wheels]}")
    return found


def _has_native(wheel: Path) -> bool:
    with zipfile.ZipFile(wheel) as file:
        return any(name.startswith(NATIVE) and name.endswith((".so", ".pyd")) for name in file.namelist())


if __name__ == "__main__":
    sys.exit("\n".join(problems(Path(sys.argv[1]))) or 0)
