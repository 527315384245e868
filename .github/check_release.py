"""Fail if the files of a release do not belong to its tag; print the notes of the release.

python3 .github/check_release.py FOLDER TAG
"""

import re
import sys
from pathlib import Path

from check_wheels import problems as wheel_problems

ROOT = Path(__file__).parents[1]
PLATFORMS = {  # as in the names of wheels
    "Linux x86-64": r"manylinux\w*_x86_64",
    "Linux aarch64": r"manylinux\w*_aarch64",
    "macOS arm64": r"macosx\w*_arm64",
    "macOS x86-64": r"macosx\w*_x86_64",
    "Windows x86-64": r"win_amd64",
}
VERSIONS = ("cp310-cp310", "cp311-cp311", "cp312-abi3")


def notes(changelog: str, version: str) -> str:
    """Return the section of a version; it must have a date."""
    heading = re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d\n", changelog, re.MULTILINE)
    if heading is None:
        sys.exit(f"CHANGELOG.md has no heading '## {version} - YEAR-MONTH-DAY'; add it before the tag")
    return changelog[heading.end() :].partition("\n## ")[0].strip()


def problems(folder: Path, version: str) -> list[str]:
    """Return what is missing or belongs to another version."""
    names = [path.name for path in folder.iterdir()]
    found = wheel_problems(folder)
    found += [f"{name} is not of version {version}" for name in names if f"-{version}" not in name]
    for platform, pattern in PLATFORMS.items():
        for tag in VERSIONS:
            if not any(re.search(rf"^prunus-.*-{tag}-.*{pattern}", name) for name in names):
                found.append(f"the wheel {tag} for {platform} is missing")
    sources = (f"prunus-{version}.tar.gz", f"prunus_samples-{version}.tar.gz")
    return found + [f"{name} is missing" for name in sources if name not in names]


def main(folder: Path, tag: str) -> None:
    """Check the files and print the notes."""
    version = tag.removeprefix("v")
    text = notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    found = problems(folder, version)
    if found:
        sys.exit("\n".join(found))
    print(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
