"""Whole runs of two processes: started by torchrun, killed, stopped, and on machines without a common disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from typing_extensions import override

import prunus
from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.config import Recipe
from prunus.errors import TrainingError, TrainingInterrupted
from prunus.files import write_atomically
from prunus.parallel import joining
from prunus.recipes import load_recipe, parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.training.run import resume_run, start_run
from tests.conftest import write_domain
from tests.makers.process_groups import Results, start_ranks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks for the processes of torchrun in /proc"),
]

# at the default rate of the switches two epochs are chaotic: the last bit of a gradient decides which kernels remain
RECIPE = """
preset = "paper"
backbone = { name = "wrn14_2", size = 16, resize = 18 }
domains = ["demo:fashion", "demo:signs"]
budget = 0.5
[training]
epochs = 2
batch_size = 32
lr = 0.02
switch_lr = 3e-5
checkpoint_seconds = 0.2
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of one process, and one of two processes of which one was killed on the way."""
    folder = tmp_path_factory.mktemp("torchrun")
    (folder / "recipe.toml").write_text(RECIPE)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(folder)}
    train = ["-m", "prunus", "train", "recipe.toml", "--device", "cpu", "--out", "two"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "2"]
    command = [sys.executable, *torchrun, *train]
    with (folder / "output.txt").open("w") as output:
        agent = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        try:
            kill_one_worker(agent, RunFolder(folder / "two"))
            alone = load_recipe(folder / "recipe.toml", ["training.checkpoint_seconds=1e9"])
            start_run(alone, folder / "one", device="cpu", use_cache=False)
            agent.wait(120)
        finally:
            agent.kill()
    assert agent.returncode == 0, (folder / "output.txt").read_text()
    return {name: folder / name for name in ("one", "two", "output.txt")}


def kill_one_worker(agent: subprocess.Popen[bytes], run: RunFolder) -> None:
    """Wait for the second checkpoint of a run, and kill the process that does not write it."""
    deadline = time.monotonic() + 120
    while not (run.checkpoint.exists() and read_checkpoint(run.checkpoint).position.step > 3):
        assert agent.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    workers = (Path(f"/proc/{agent.pid}/task/{agent.pid}/children")).read_text().split()
    ranks = {dict(_variables(int(worker))).get("RANK"): int(worker) for worker in workers}
    os.kill(ranks["1"], signal.SIGKILL)


def _variables(process: int) -> list[tuple[str, str]]:
    pairs = (entry.partition("=") for entry in Path(f"/proc/{process}/environ").read_text().split("\0"))
    return [(name, value) for name, _, value in pairs]


def test_a_run_with_a_killed_process_continues_from_its_checkpoint_and_ends(runs: dict[str, Path]) -> None:
    position = read_checkpoint(RunFolder(runs["two"]).checkpoint).position
    assert position.step == position.total_steps == 92
    output = runs["output.txt"].read_text()
    left = [int(line.split()[-4]) for line in output.splitlines() if line.endswith("steps to go")]
    assert len(left) == 2
    assert left[0] == 92
    assert 0 < left[1] <= 92 - 4
    assert output.count("Done. Next:") == 1
    assert [entry.epoch for entry in RunFolder(runs["two"]).epochs()] == [0, 1]


def test_two_processes_reach_the_accuracies_of_one(runs: dict[str, Path]) -> None:
    one, two = (prunus.evaluate(runs[name], device="cpu") for name in ("one", "two"))
    assert one.mean_accuracy > 0.5
    assert abs(one.mean_accuracy - two.mean_accuracy) < 0.03
    last = [RunFolder(runs[name]).epochs()[-1] for name in ("one", "two")]
    assert [entry.domains["signs"].usage < 1 for entry in last] == [True, True]
    for name in ("fashion", "signs"):
        ours, theirs = (entry.domains[name] for entry in last)
        assert abs(ours.train_accuracy - theirs.train_accuracy) < 0.03
        assert ours.usage == pytest.approx(theirs.usage, abs=0.01)


def _tiny(folder: Path, **training: object) -> Recipe:
    domains = [str(folder / name) for name in ("one", "two")]
    settings = {"epochs": 3, "batch_size": 5, "lr": 0.05, "strategy": "mixed", "checkpoint_seconds": 1e9} | training
    backbone = {"name": "wrn14_2", "size": 16, "resize": 18}
    return parse_recipe(
        {"preset": "paper", "backbone": backbone, "domains": domains, "budget": 0.5, "training": settings}
    )


class SignalAt(Observer):
    """Sends a signal to another process after a step."""

    def __init__(self, process: int, step: int) -> None:
        self._process = process
        self._step = step

    @override
    def stepped(self, step: int, epoch: int) -> None:
        if step == self._step:
            os.kill(self._process, signal.SIGTERM)


def _train(folder: Path, rank: int) -> Results:
    """Train in one piece, then stop in the middle and continue; the second process has a disk of its own."""
    torch.manual_seed(rank)
    disk = folder / f"disk of {rank}"
    start_run(_tiny(folder), disk / "whole", device="cpu", use_cache=False)
    pid = folder / "pid"
    if rank == 1:
        write_atomically(pid, str(os.getpid()).encode())  # the other process reads it as soon as it exists
    while not pid.exists():
        time.sleep(0.01)
    observers = [SignalAt(int(pid.read_text()), 4)] if rank == 0 else []
    with pytest.raises(TrainingInterrupted, match="saved at step"):
        start_run(_tiny(folder), disk / "stopped", observers, "cpu", use_cache=False)
    resume_run(disk / "stopped", device="cpu", use_cache=False)
    return {}


def test_a_signal_at_any_process_stops_all_and_the_run_continues_bit_for_bit(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_domain(tmp_path / name, train=4, validation=3)
    start_ranks(partial(_train, tmp_path), 2, tmp_path)
    assert not (tmp_path / "disk of 1").exists()
    folders = [RunFolder(tmp_path / "disk of 0" / name) for name in ("whole", "stopped")]
    whole, stopped = (read_checkpoint(folder.checkpoint) for folder in folders)
    assert whole.position == stopped.position
    assert whole.position.is_finished
    assert [name for name, tensor in whole.tensors.items() if not torch.equal(tensor, stopped.tensors[name])] == []
    logs = [folder.epochs() for folder in folders]
    assert [entry.domains for entry in logs[0]] == [entry.domains for entry in logs[1]]
    assert len(logs[0]) == 3


def test_a_restarted_process_continues_its_run_instead_of_refusing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        write_domain(tmp_path / name, train=4, validation=3)
    recipe = _tiny(tmp_path, epochs=1)
    with pytest.raises(TrainingInterrupted):
        prunus.train(recipe, tmp_path / "run", [SignalAt(os.getpid(), 2)], "cpu")
    with pytest.raises(TrainingError, match="already holds a run"):
        prunus.train(recipe, tmp_path / "run", device="cpu")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    prunus.train(recipe, tmp_path / "run", device="cpu")
    prunus.train(recipe, tmp_path / "run", device="cpu")  # also if it had been finished
    assert read_checkpoint(RunFolder(tmp_path / "run").checkpoint).position.is_finished


def _restart(folder: Path, rank: int) -> Results:
    open_store = joining._open_store
    joining._open_store = lambda: (open_store()[0], rank == 1)  # one machine remembers that training had begun
    if rank == 1:
        (folder / "disk of 1").mkdir()
        (folder / "disk of 1" / "checkpoint.safetensors").touch()
    start_run(_tiny(folder), folder / f"disk of {rank}", device="cpu")
    return {}


def test_a_run_does_not_begin_again_where_another_machine_could_continue(tmp_path: Path) -> None:
    with pytest.raises(
        TrainingError, match=r"0: torchrun has made another machine the first one.* \| 1: stopped because"
    ):
        start_ranks(partial(_restart, tmp_path), 2, tmp_path)
