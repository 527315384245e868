"""Joining of processes, with errors in words."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from prunus.errors import TrainingError
from prunus.parallel.joining import join_processes
from prunus.parallel.processes import Processes
from tests.makers.process_groups import Results, environment, free_port, run_processes


def test_without_torchrun_a_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes(torch.device("cpu")) as processes:
        assert processes == Processes(device=torch.device("cpu"), _turns=processes._turns)
    monkeypatch.setenv("WORLD_SIZE", "1")
    with join_processes(torch.device("cpu")) as processes:
        assert processes.world == 1


def test_missing_variables_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(TrainingError, match=r"LOCAL_RANK, MASTER_ADDR, MASTER_PORT is not set; .*torchrun"):  # noqa: SIM117
        with join_processes(torch.device("cpu")):
            pass


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(3, 4, 1).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(TrainingError, match="process 4 of this machine has no GPU, the machine has 2"):  # noqa: SIM117
        with join_processes(torch.device("cuda")):
            pass


def test_others_that_never_start_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(1, 2, free_port()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("prunus.parallel.joining.TIMEOUT", torch.distributed.default_pg_timeout * 0.0005)
    with pytest.raises(TrainingError, match=r"process 1 of 2 could not reach the others at 127.0.0.1:\d+"):  # noqa: SIM117
        with join_processes(torch.device("cpu")):
            pass


@pytest.mark.parametrize(("count", "is_restarted"), [(None, False), ("0", False), ("2", True)])
def test_a_restart_by_torchrun_is_recognized(
    count: str | None, is_restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    if count:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
    with join_processes(torch.device("cpu")) as processes:
        assert processes.is_restarted == is_restarted


def _fail_in_the_second(processes: Processes) -> Results:
    if processes.rank == 1:
        raise TrainingError("the loss is not a number")
    processes.barrier()
    return {}


@pytest.mark.slow
def test_an_error_of_one_process_ends_all_with_its_message(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as failure:
        run_processes(_fail_in_the_second, 2, tmp_path)
    reason = "the loss is not a number"
    assert str(failure.value).split(" | ") == [
        f"0: stopped because another process failed (process 1: {reason})",
        f"1: {reason}",
    ]
