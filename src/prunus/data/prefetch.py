"""Prepare the inputs of the next steps in worker processes, while the current step runs."""

import atexit
import ctypes
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from prunus.errors import TrainingError

StepInputs = tuple[tuple[Tensor, ...], ...]  # the tensors of every part of a step
Job = TypeVar("Job")

MOST_WORKERS = 8
STEPS_AHEAD = 2  # per worker
ALIGNMENT = 16  # bytes
PR_SET_PDEATHSIG = 1


def choose_workers(wanted: int | None, has_work: bool, processes: int = 1) -> int:
    """Return how many workers prepare steps, in each of several training processes on this machine.

    Args:
        wanted: the number of the recipe; None chooses one.
        has_work: whether images are augmented; passing them on takes longer than to gather them from memory.
    """
    can_fork = "fork" in multiprocessing.get_all_start_methods()
    if wanted is not None:
        if wanted and not can_fork:
            raise TrainingError(f"training.workers = {wanted} needs Linux or macOS; set training.workers = 0")
        return wanted
    cores = _num_cores() // processes
    return min(MOST_WORKERS, cores - 1) if has_work and cores > 2 and sys.platform == "linux" else 0


def prepare_steps(
    jobs: Iterable[Job], draw: Callable[[Job], StepInputs], workers: int, pin: bool
) -> Generator[StepInputs, None, None]:
    """Yield `draw(job)` for every job, in order; close the iterator to end its workers early.

    Workers are forked, so `draw` and the images that it reads are shared and not copied; only jobs are pickled.

    Args:
        pin: return tensors in pinned memory, from which a GPU copies without making the host wait.
    """
    if workers == 0:
        for job in jobs:
            inputs = draw(job)
            yield tuple(tuple(tensor.pin_memory() for tensor in part) for part in inputs) if pin else inputs
        return
    results = _start_workers(jobs, draw, workers)
    # a program may end without closing this iterator; its exit would wait for workers that ignore its signal
    atexit.register(results._shutdown_workers)
    try:
        while (packed := _next(results)) is not None:
            yield packed.unpack(pin)
    finally:
        atexit.unregister(results._shutdown_workers)
        results._shutdown_workers()


@dataclass(frozen=True)
class PackedInputs:
    """The inputs of a step in one buffer: passing a tensor between processes takes as long as copying a megabyte."""

    buffer: Tensor
    layout: tuple[tuple[tuple[torch.dtype, torch.Size, int], ...], ...]  # type, shape and offset of every tensor

    @classmethod
    def pack(cls, inputs: StepInputs) -> "PackedInputs":
        """Copy all tensors into one buffer."""
        tensors = [tensor.reshape(-1).view(torch.uint8) for part in inputs for tensor in part]
        offsets = list(accumulate((ALIGNMENT * math.ceil(len(t) / ALIGNMENT) for t in tensors), initial=0))
        buffer = torch.empty(offsets[-1], dtype=torch.uint8)
        for tensor, offset in zip(tensors, offsets, strict=False):
            buffer[offset : offset + len(tensor)] = tensor
        places = iter(offsets)
        return cls(buffer, tuple(tuple((t.dtype, t.shape, next(places)) for t in part) for part in inputs))

    def unpack(self, pin: bool) -> StepInputs:
        """Return the tensors as views of the buffer, in pinned memory if asked."""
        # not in a thread, as torch does it: a GPU that captures a step would refuse to pin memory meanwhile
        buffer = self.buffer.pin_memory() if pin else self.buffer
        return tuple(
            tuple(
                buffer[offset : offset + shape.numel() * dtype.itemsize].view(dtype).reshape(shape)
                for dtype, shape, offset in part
            )
            for part in self.layout
        )


class StepImages(Dataset[object], Generic[Job]):
    """The inputs of steps; the item of a job is what `draw` makes of it, or why it failed."""

    def __init__(self, draw: Callable[[Job], StepInputs]) -> None:
        self._draw = draw

    def __getitem__(self, job: Job) -> object:
        try:
            return PackedInputs.pack(self._draw(job))
        except Exception as error:
            return _Failure.of(error)


@dataclass(frozen=True)
class _Failure:
    """An error on its way out of a worker; unpickling the error itself would call its class with other arguments."""

    kind: type[Exception]
    arguments: tuple[object, ...]
    trace: str

    @classmethod
    def of(cls, error: Exception) -> "_Failure":
        failure = cls(type(error), cast("tuple[object, ...]", error.__reduce__()[1]), traceback.format_exc())
        try:
            pickle.dumps(failure)
        except Exception:  # an error whose class or content cannot leave the worker
            return cls(RuntimeError, (f"{type(error).__name__}: {error}",), failure.trace)
        return failure

    def to_error(self) -> Exception:
        error = self.kind.__new__(self.kind, *self.arguments)
        error.__cause__ = RuntimeError(f"in a worker that prepares images:\n{self.trace}")
        return error


class _Results(Iterator[object], Protocol):
    """The part of torch's iterator over several workers that is used here; its class is private."""

    def _shutdown_workers(self) -> None: ...


def _start_workers(jobs: Iterable[Job], draw: Callable[[Job], StepInputs], workers: int) -> _Results:
    with _forking_is_meant(), _same_handler(signal.SIGCHLD), _held_back({signal.SIGINT, signal.SIGTERM}):
        loader = DataLoader(
            StepImages(draw),
            sampler=jobs,
            batch_size=None,
            num_workers=workers,
            prefetch_factor=STEPS_AHEAD,
            multiprocessing_context="fork",
            worker_init_fn=partial(_begin_worker, os.getpid()),
            generator=torch.Generator(),  # the default is the global one, whose state a step must not change
        )
        return cast("_Results", iter(loader))


def _next(results: Iterator[object]) -> PackedInputs | None:
    try:
        result = next(results, None)
    except (RuntimeError, ConnectionError, EOFError, FileNotFoundError) as error:
        if isinstance(error, RuntimeError) and not str(error).startswith("DataLoader worker (pid"):
            raise
        raise TrainingError(
            "a process that prepares images ended unexpectedly, probably for lack of memory or of shared memory "
            "(/dev/shm); provide more, or set training.workers = 0"
        ) from error
    if isinstance(result, _Failure):
        raise result.to_error()
    return cast("PackedInputs | None", result)


def _begin_worker(training: int, _: int) -> None:
    """Leave signals to the training process, which ends its workers, and end with it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":  # elsewhere a worker looks every few seconds whether its parent lives
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != training:  # it ended before it could be watched
        os._exit(1)


@contextmanager
def _forking_is_meant() -> Iterator[None]:
    """Silence warnings: a worker computes in one thread, not in its parent's, and the user chose their number."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*multi-threaded.*fork", DeprecationWarning)
        warnings.filterwarnings("ignore", "This DataLoader will create", UserWarning)
        yield


@contextmanager
def _held_back(signals: set[signal.Signals]) -> Iterator[None]:
    """Deliver signals later: a worker that is still starting would end by them. It inherits the block and keeps it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _same_handler(number: int) -> Iterator[None]:
    """Keep torch from raising errors about dead workers in the middle of a step; `next` notices them too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(number)
    yield
    signal.signal(number, handler)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
