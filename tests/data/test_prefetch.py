from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from prunus.arrays import Bytes
from prunus.data.augment import crop, draw_crops
from prunus.data.policies import POLICIES, augment, image_seeds, make_policy
from prunus.data.prefetch import PackedInputs, StepInputs, choose_workers, prepare_steps
from prunus.errors import DataError, TrainingError, UnknownNameError

SIDE, SIZE = 12, 8
WITH_WORKERS = [0, 1, 2]


@dataclass(frozen=True)
class Job:
    step: int
    indices: tuple[int, ...]


JOBS = [Job(step, tuple(range(step % 5, step % 5 + 4))) for step in range(9)]


def rows(count: int = 12) -> Bytes:
    return np.random.default_rng(0).integers(0, 256, (count, 3, SIDE, SIDE), dtype=np.uint8)


def drawing(images: Bytes, names: tuple[str, ...]) -> Callable[[Job], StepInputs]:
    policy = make_policy(names, SIZE, mirror=True)

    def draw(job: Job) -> StepInputs:
        indices = np.array(job.indices)
        pixels = augment(images[indices], policy, image_seeds(7, job.step, 0, indices))
        return ((pixels, torch.from_numpy(indices)),)

    return draw


def number(job: int) -> StepInputs:
    return ((torch.tensor([job]),),)


def numbers_of(steps: Iterator[StepInputs]) -> list[int]:
    return [int(parts[0][0]) for parts in steps]


@pytest.mark.parametrize("workers", WITH_WORKERS)
def test_steps_come_in_order(workers: int) -> None:
    assert numbers_of(prepare_steps(iter(range(20)), number, workers, pin=False)) == list(range(20))
    assert multiprocessing.active_children() == []


def test_the_same_pixels_are_seen_with_any_number_of_workers() -> None:
    draw = drawing(rows(), tuple(POLICIES))
    found = [list(prepare_steps(JOBS, draw, workers, pin=False)) for workers in WITH_WORKERS]
    for other in found[1:]:
        for ((pixels, indices),), ((expected, chosen),) in zip(other, found[0], strict=True):
            assert torch.equal(pixels, expected)
            assert torch.equal(indices, chosen)


def test_tensors_of_any_type_and_shape_survive_packing() -> None:
    inputs: StepInputs = (
        (torch.arange(6, dtype=torch.uint8).reshape(2, 3), torch.tensor(7), torch.ones(0, 3, 2, 2)),
        (torch.randn(3, 5, dtype=torch.float64).t(), torch.tensor([True, False, True]), torch.arange(5)),
        (),
    )
    found = PackedInputs.pack(inputs).unpack(pin=False)
    assert [len(part) for part in found] == [3, 3, 0]
    for part, expected in zip(found, inputs, strict=True):
        for tensor, original in zip(part, expected, strict=True):
            assert tensor.dtype == original.dtype
            assert tensor.shape == original.shape
            assert torch.equal(tensor, original)


def test_workers_gather_and_crop_the_rows_of_a_mapped_file(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", rows())
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")

    def draw(job: Job) -> StepInputs:
        generator = torch.Generator().manual_seed(job.step)
        crops = draw_crops(len(job.indices), SIDE - SIZE, True, generator)
        return ((crop(torch.from_numpy(mapped[list(job.indices)]), crops, SIZE), crops),)

    for job, ((pixels, crops),) in zip(JOBS, prepare_steps(JOBS, draw, 2, pin=False), strict=True):
        for found, index, (top, left, mirrored) in zip(pixels, job.indices, crops.tolist(), strict=True):
            window = rows()[index, :, top : top + SIZE, left : left + SIZE]
            assert np.array_equal(found, window[..., ::-1] if mirrored else window)


@pytest.mark.parametrize("workers", WITH_WORKERS)
@pytest.mark.parametrize(
    "error",
    [
        DataError("birds/3.png is damaged"),
        UnknownNameError("split", "tets", ["test"]),  # its class takes other arguments than its message
        FileNotFoundError(2, "No such file", "birds/3.png"),
        KeyError("birds"),
    ],
)
def test_an_error_in_a_worker_keeps_its_type_and_message(workers: int, error: Exception) -> None:
    def draw(job: int) -> StepInputs:
        if job == 3:
            raise error
        return number(job)

    steps = prepare_steps(range(9), draw, workers, pin=False)
    assert [int(next(steps)[0][0]) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(type(error)) as caught:
        next(steps)
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)
    assert workers == 0 or "raise error" in str(caught.value.__cause__)  # the line of the worker
    assert multiprocessing.active_children() == []


def test_an_error_that_cannot_leave_a_worker_still_shows_its_message() -> None:
    class LocalError(Exception):
        pass

    def draw(job: int) -> StepInputs:
        raise LocalError("only here")

    with pytest.raises(RuntimeError, match="LocalError: only here"):
        next(prepare_steps(range(3), draw, 1, pin=False))


def test_an_error_in_the_jobs_ends_the_workers() -> None:
    def jobs() -> Iterator[int]:
        yield from range(5)
        raise DataError("no more")

    with pytest.raises(DataError, match="no more"):
        numbers_of(prepare_steps(jobs(), number, 2, pin=False))
    assert multiprocessing.active_children() == []


def test_closing_the_steps_early_ends_the_workers() -> None:
    steps = prepare_steps(range(1000), number, 2, pin=False)
    assert int(next(steps)[0][0]) == 0
    assert len(multiprocessing.active_children()) == 2
    steps.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", WITH_WORKERS)
def test_what_a_gpu_reads_is_pinned_in_the_thread_of_the_training(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned_in = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        pinned_in.append((os.getpid(), threading.current_thread()))
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    assert numbers_of(prepare_steps(range(3), number, workers, pin=True)) == [0, 1, 2]
    assert pinned_in == [(os.getpid(), threading.current_thread())] * 3


@pytest.mark.slow  # torch looks for dead workers every 5 seconds
def test_a_worker_that_is_killed_is_an_error_with_advice() -> None:
    def draw(job: int) -> StepInputs:
        if job == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return number(job)

    with pytest.raises(TrainingError, match=r"ended unexpectedly.*training.workers = 0"):
        numbers_of(prepare_steps(range(9), draw, 1, pin=False))
    assert multiprocessing.active_children() == []


def test_workers_ignore_the_signals_that_ask_the_training_to_stop() -> None:
    steps = prepare_steps(range(30), number, 2, pin=False)
    found = [int(next(steps)[0][0])]
    for worker in multiprocessing.active_children():
        for request in (signal.SIGINT, signal.SIGTERM):  # a terminal sends them to the whole group
            os.kill(worker.pid or 0, request)
    assert found + numbers_of(steps) == list(range(30))


def test_a_worker_computes_in_one_thread_and_does_not_touch_the_randomness_of_the_training() -> None:
    def draw(job: int) -> StepInputs:
        return ((torch.tensor([torch.get_num_threads()]), torch.rand(1)),)

    state = torch.get_rng_state()
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()  # Python warns where a process with threads forks, and a warning fails these tests
    try:
        found = list(prepare_steps(range(3), draw, 1, pin=False))
    finally:
        done.set()
        thread.join()
    assert [int(threads) for ((threads, _),) in found] == [1, 1, 1]
    assert torch.equal(torch.get_rng_state(), state)


ENDINGS = """
import json, multiprocessing, os, signal, sys, time
from pathlib import Path
import torch
from prunus.data.prefetch import prepare_steps

def train(pipe, forgets):
    steps = prepare_steps(range(10**6), lambda job: ((torch.zeros(1),),), 2, pin=False)
    next(steps)
    os.write(pipe, " ".join(str(worker.pid) for worker in multiprocessing.active_children()).encode())
    time.sleep(0 if forgets else 60)
    sys.exit()  # with the iterator still open

def runs(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False

def survivors(request):
    reading, writing = os.pipe()
    training = os.fork()
    if training == 0:
        train(writing, request is None)
    workers = os.read(reading, 100).decode().split()
    assert len(workers) == 2
    if request:
        os.kill(training, request)
    os.waitpid(training, 0)
    deadline = time.monotonic() + 10
    while any(map(runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return list(filter(runs, workers))

requests = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "interrupt": signal.SIGINT, "forget": None}
print(json.dumps({ending: survivors(request) for ending, request in requests.items()}))
"""


@pytest.mark.slow
def test_no_worker_outlives_the_training_however_it_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ENDINGS], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == {"kill": [], "terminate": [], "interrupt": [], "forget": []}
    assert "worker" not in done.stderr
    assert done.stderr.count("Traceback") == 1  # of the interrupted training itself


@pytest.mark.parametrize(
    ("wanted", "has_work", "cores", "processes", "expected"),
    [
        (None, False, 16, 1, 0),  # crops of images on a GPU are drawn in no time
        (None, True, 1, 1, 0),
        (None, True, 2, 1, 0),
        (None, True, 4, 1, 3),
        (None, True, 64, 1, 8),
        (None, True, 16, 4, 3),
        (None, True, 8, 8, 0),
        (0, True, 16, 1, 0),
        (5, False, 2, 1, 5),  # what the recipe says
    ],
)
def test_the_number_of_workers_follows_the_work_and_the_cores(
    wanted: int | None, has_work: bool, cores: int, processes: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("sys.platform", "linux")
    assert choose_workers(wanted, has_work, processes) == expected


def test_workers_on_a_system_without_fork_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    with pytest.raises(TrainingError, match=r"training.workers = 2 needs Linux or macOS"):
        choose_workers(2, has_work=True)
