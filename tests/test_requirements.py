"""What is installed is pinned by version and hash, and the build tools are the same everywhere."""

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]


def pinned(file: str) -> dict[str, list[str]]:
    """Return the hashes of every pinned package, by its name and version."""
    packages: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / file).read_text()):
        if entry.strip() and not entry.startswith("#"):
            name = entry.split(";")[0].split("\\")[0].strip()
            packages[name] = re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry)
    return packages


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-uv.txt"])
def test_every_package_has_one_version_and_hashes(file: str) -> None:
    packages = pinned(file)
    assert packages
    assert [name for name in packages if not re.fullmatch(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[^=\s]+", name)] == []
    assert [name for name, hashes in packages.items() if not hashes] == []


@pytest.mark.parametrize("project", ["pyproject.toml", "samples/pyproject.toml"])
def test_build_tools_have_the_versions_that_are_pinned_with_hashes(project: str) -> None:
    required = tomllib.loads((ROOT / project).read_text())["build-system"]["requires"]
    assert required
    assert set(required) <= set(pinned("requirements.txt"))


def test_set_up_accepts_nothing_without_a_hash() -> None:
    installs = re.findall(r"pip install (.*)", (ROOT / "Makefile").read_text())
    assert len(installs) >= 3
    for options in installs:
        assert "--require-hashes" in options or ("--no-deps" in options and "--no-build-isolation" in options), options
