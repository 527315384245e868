"""Hold a run folder while a process trains in it, so that no second one writes the same files."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from prunus.errors import PrunusError, TrainingError
from prunus.run_folder import RunFolder

WAIT_SECONDS = 1.0  # processes that a killed run has started may need a moment to let go of its lock


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold a run folder, or refuse one that another process holds; the system releases it when a process dies.

    A folder that only the lock has made is removed again. Where no lock can be written, nothing else can be.
    """
    path = folder.path
    if path.exists() and not path.is_dir():  # what comes next refuses it
        yield
        return
    is_new = not folder.lock.exists()
    missing = [above for above in (path, *path.parents) if not above.exists()]
    lock = FileLock(folder.lock, timeout=WAIT_SECONDS)
    with contextlib.suppress(OSError):
        path.mkdir(parents=True, exist_ok=True)
        _acquire(lock, path)
    try:
        yield
    except PrunusError:  # refused: a folder that holds something else stays as it was
        if is_new and not folder.checkpoint.exists():
            folder.lock.unlink(missing_ok=True)
        raise
    finally:
        _remove_empty(folder, missing)
        lock.release()


def _acquire(lock: FileLock, path: Path) -> None:
    try:
        lock.acquire()
    except Timeout:
        raise TrainingError(
            f"another process is training in {path}; wait until it ends, stop it, or choose another folder"
        ) from None


def _remove_empty(folder: RunFolder, missing: list[Path]) -> None:
    with contextlib.suppress(OSError):  # a folder that is not empty stays
        if missing and list(folder.path.iterdir()) == [folder.lock]:
            folder.lock.unlink()
        for path in missing:
            path.rmdir()
