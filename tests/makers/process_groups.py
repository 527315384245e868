"""Several processes on this machine that run one function together, as torchrun would start them."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from prunus.errors import TrainingError
from prunus.parallel.joining import join_processes
from prunus.parallel.processes import Processes

Results = dict[str, Tensor]


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(rank: int, world: int, port: int) -> dict[str, str]:
    """Return the variables that torchrun sets."""
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "GROUP_RANK": 0}
    names = {name: str(value) for name, value in ranks.items()}
    return names | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def run_processes(function: Callable[[Processes], Results], world: int, folder: Path) -> list[Results]:
    """Join several processes and run a function of a module in each of them; see `start_ranks`."""
    return start_ranks(partial(_joined, function), world, folder)


def start_ranks(function: Callable[[int], Results], world: int, folder: Path) -> list[Results]:
    """Run a function of a module in several processes; return their tensors, or raise all their errors as one."""
    # one clean process imports torch once, and all others are its copies
    modules = ["torch.utils.tensorboard", "prunus.training.run", __name__]
    multiprocessing.get_context("forkserver").set_forkserver_preload(modules)
    arguments = (world, free_port(), function, str(folder))
    start_processes(_run, arguments, nprocs=world, start_method="forkserver")  # type: ignore[no-untyped-call]
    errors = [f"{rank}: {path.read_text()}" for rank in range(world) if (path := folder / f"{rank}.txt").exists()]
    if errors:
        raise TrainingError(" | ".join(errors))
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(world)]


def _joined(function: Callable[[Processes], Results], _rank: int) -> Results:
    with join_processes(torch.device("cpu")) as processes:
        return function(processes)


def _run(rank: int, world: int, port: int, function: Callable[[int], Results], folder: str) -> None:
    torch.set_num_threads(1)
    os.environ |= environment(rank, world, port)
    try:
        torch.save(function(rank), Path(folder) / f"{rank}.pt")
    except TrainingError as error:
        (Path(folder) / f"{rank}.txt").write_text(str(error))
