"""A copy of the project in which mutants are made, with an interpreter that imports the copy and nothing else of it."""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copy_project(tree: Path) -> Path:
    """Bring the copy up to date with the files that git knows or would add, and return its interpreter.

    The packages come from this environment through a .pth file. Files of that kind within them are not read, so the
    editable install of the original cannot take the place of the copy, in this process or in those that tests start.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    wanted = {name for name in listed if name and (ROOT / name).is_file()}
    for folder in ("src", "tests"):
        for old in (tree / folder).rglob("*.py"):
            if old.relative_to(tree).as_posix() not in wanted:
                old.unlink()
    for name in wanted:
        _copy(ROOT / name, tree / name)
    for library in Path(sysconfig.get_path("platlib"), "prunus").rglob("*.so"):
        _copy(library, tree / "src" / library.relative_to(sysconfig.get_path("platlib")))
    compileall.compile_dir(tree / "src", quiet=1)  # the processes that run tests write none
    return _environment(tree)


@contextmanager
def changed(path: Path, code: str) -> Iterator[None]:
    """Replace a file of the copy for the duration of the block, without bytecode of the file that was there."""
    original, times = path.read_bytes(), path.stat()
    _forget(path)
    path.write_text(code)
    try:
        yield
    finally:
        path.write_bytes(original)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        _forget(path)


def _environment(tree: Path) -> Path:
    venv = tree / ".venv"
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)}))
    lines = (tree / "src", tree / "samples", sysconfig.get_path("purelib"))
    (purelib / "copy.pth").write_text("".join(f"{line}\n" for line in lines))
    return venv / "bin/python"


def _copy(source: Path, target: Path) -> None:
    if target.exists() and target.stat().st_mtime_ns == source.stat().st_mtime_ns:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
    _forget(target)


def _forget(path: Path) -> None:
    for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        cached.unlink()
