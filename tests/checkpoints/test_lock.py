"""One process at a time trains in a folder; the lock of a dead one is free."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prunus.checkpoints.lock import locked
from prunus.errors import TrainingError
from prunus.run_folder import RunFolder

HOLDING = """
import multiprocessing, os, sys, time
from pathlib import Path
from prunus.checkpoints.lock import locked
from prunus.run_folder import RunFolder
with locked(RunFolder(Path(sys.argv[1]))):
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))  # as those that prepare images
    worker.start()
    print(worker.pid, flush=True)
    time.sleep(60)
"""


def test_a_folder_is_held_by_one_and_free_afterwards(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    for _ in range(2):
        with locked(folder):
            (tmp_path / "run" / "recipe.json").touch()
            with pytest.raises(TrainingError, match=r"another process is training in .*run; wait"), locked(folder):
                pytest.fail("held twice")
    with locked(RunFolder(tmp_path / "other")), locked(folder):
        pass


@pytest.mark.slow
def test_another_process_is_refused_until_the_first_one_dies_though_its_workers_live(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", HOLDING, tmp_path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    try:
        with pytest.raises(TrainingError, match="another process is training"), locked(RunFolder(tmp_path)):
            pytest.fail("held twice")
        process.kill()
        process.wait()
        with locked(RunFolder(tmp_path)):
            pass
    finally:
        process.kill()
        process.stdout.close()
        os.kill(worker, signal.SIGKILL)


def test_a_folder_that_only_the_lock_made_is_removed_again(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="refused"), locked(RunFolder(tmp_path / "above" / "run")):
        assert (tmp_path / "above" / "run").is_dir()
        raise TrainingError("refused")
    assert list(tmp_path.iterdir()) == []
    with locked(RunFolder(tmp_path / "run")):
        (tmp_path / "run" / "recipe.json").touch()
    assert (tmp_path / "run" / "recipe.json").exists()
    (tmp_path / "empty").mkdir()
    with locked(RunFolder(tmp_path / "empty")):
        pass
    assert (tmp_path / "empty").is_dir()


def test_where_no_lock_can_be_written_the_folder_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    seen = []
    with locked(RunFolder(tmp_path)):
        seen.append("here")
    (tmp_path / "file").touch()
    with locked(RunFolder(tmp_path / "file")):
        seen.append("and here")
    assert seen == ["here", "and here"]
