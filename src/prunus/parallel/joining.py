"""Join the processes that torchrun started on one machine or several, and pass errors on to all of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from prunus.errors import TrainingError
from prunus.parallel.meeting import meet
from prunus.parallel.processes import BEGUN, OtherProcessFailed, Processes

TIMEOUT = timedelta(minutes=10)  # for one sum; a process that needs longer for a step has stopped
_joins = count()
# open to the end of the program: a process that comes early to the next join may find the store of the last one, and
# would wait there alone if the first process closed it then; left open, that process uses it again
_stores: list[Store] = []
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def is_first_process() -> bool:
    """Return whether this process writes files and talks to the user, also before and after it joins the others."""
    return int(os.environ.get("WORLD_SIZE", "1")) == 1 or os.environ.get("RANK") == "0"


@contextmanager
def join_processes(device: torch.device) -> Iterator[Processes]:
    """Join the processes that torchrun started; without torchrun this process is alone.

    Processes on GPUs exchange tensors with NCCL, one GPU each, and processes on CPUs with Gloo. An error of one process
    ends all of them with its message.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes(device=device, is_restarted=_restarts() > 0)
        return
    processes = _connect(device, _read_environment(os.environ))
    try:
        yield processes
        processes.barrier()  # the process that holds the store must not leave before the others
    except Exception as error:
        reason = _report(processes, error)
        if dist.get_backend() == "gloo":
            dist.destroy_process_group()  # with NCCL this could wait for a process that has ended
        if reason:
            raise OtherProcessFailed(reason) from error
        raise
    dist.destroy_process_group()


def _read_environment(environment: Mapping[str, str]) -> dict[str, str]:
    missing = [name for name in VARIABLES if not environment.get(name)]
    if missing:
        raise TrainingError(
            f"WORLD_SIZE is {environment['WORLD_SIZE']}, but {', '.join(missing)} is not set; "
            "start several processes with: torchrun --nproc-per-node N -m prunus train ..."
        )
    return {name: environment[name] for name in VARIABLES} | {
        "GROUP_RANK": environment.get("GROUP_RANK", "0"),
        "LOCAL_WORLD_SIZE": environment.get("LOCAL_WORLD_SIZE", environment["WORLD_SIZE"]),
    }


def _connect(device: torch.device, environment: Mapping[str, str]) -> Processes:
    rank, world, local = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    backend = "gloo"
    if device.type == "cuda":
        backend = "nccl"
        if local >= torch.cuda.device_count():
            raise TrainingError(
                f"process {local + 1} of this machine has no GPU, the machine has {torch.cuda.device_count()}; "
                "lower --nproc-per-node, or pass the argument device='cpu'"
            )
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
    address = f"{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
    try:
        root, has_begun = _open_store()
        store = PrefixStore(meet(root, rank, world, TIMEOUT.total_seconds()), root)
        group = PrefixStore("group", store)
        group_device = device if backend == "nccl" else None
        dist.init_process_group(
            backend, store=group, rank=rank, world_size=world, timeout=TIMEOUT, device_id=group_device
        )
    except (RuntimeError, ValueError, TimeoutError) as error:  # torch's own errors are RuntimeErrors
        reason = str(error).splitlines()[0]
        raise TrainingError(
            f"process {rank} of {world} could not reach the others at {address} ({reason}); "
            "check that the address is reachable from all machines and that all processes started"
        ) from error
    node, on_node = (int(environment[name]) for name in ("GROUP_RANK", "LOCAL_WORLD_SIZE"))
    notes = PrefixStore("notes", store)
    processes = Processes(rank, world, device, node, on_node, local == 0, notes, remembered=root)
    return replace(processes, is_restarted=processes.any([has_begun])[0])


def _open_store() -> tuple[Store, bool]:
    """Return torchrun's store, and whether processes that torchrun started before these have begun to train."""
    is_first_time = next(_joins) == 0
    store, _, _ = next(rendezvous("env://", timeout=TIMEOUT))
    _stores.append(store)
    return store, store.check([BEGUN]) if is_first_time else False


def _restarts() -> int:
    """Return how often this machine's torchrun has restarted its processes after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _report(processes: Processes, error: Exception) -> str | None:
    """Tell the others about an error of this process, or return what they said if it only lost its connection."""
    is_lost = isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())
    try:
        if not is_lost:
            processes.fail(error)
            if processes.is_first:
                time.sleep(0.5)  # the messages may end with this process: let the others read this one
            return None
        time.sleep(1)  # the process that failed may be about to say why
        return processes.failure()
    except RuntimeError:  # the process that holds the messages has ended
        return "it ended without a message" if is_lost else None
