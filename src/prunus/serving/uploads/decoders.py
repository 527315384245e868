"""The decoders of a service: lanes of disposable processes for small, large and huge images, with fair queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import numpy as np

from prunus.errors import PrunusError
from prunus.serving.fairness import FairQueue
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.memory import PHOTO_BYTES, image_budget
from prunus.serving.uploads.messages import Answer, Body, Decoded, Task
from prunus.serving.uploads.process import DecoderProcess, Job

SMALL_BYTES = 256 * 1024  # larger requests are never quick
QUICK_COST = 0.010  # expected seconds of a request of the quick lane: 500,000 pixels
QUICK_SECONDS = 0.030  # CPU time after which it is moved to the slow lane, whatever its headers say
PHOTO_COST = 0.25  # expected seconds of a request of the slow lane: a photograph of 14 megapixels
BYTE_GUESS = 40e-9  # expected seconds for each byte of a request whose headers were not read yet
REQUEST_GUESS = 3e-4
AHEAD = 8  # small requests that are sent to a process before it has answered; the event loop wakes up less often
AHEAD_BYTES = 64 * 1024
GRACE_SECONDS = 0.5  # for a request that nobody waits for; a new process takes about as long to start
IDLE_SECONDS = 5.0  # after which a process that was started when it was needed ends
RETRY_SECONDS = 1.0  # before a process that did not even start is started again
START_SECONDS = 60.0
WATCH_SECONDS = 1.0  # between looks at processes that take too long
QUICK_WALL_SECONDS = 5.0
ANY_COST = 1e9
ANY_BYTES = 1 << 62
MAX_DEATHS = 3  # whatever ends the processes of both lanes at once must not cost anybody an answer
STOPPED = "the images could not be decoded: the decoder stopped; save them again as standard JPEG or PNG files"
TOO_SLOW = "the request takes too long to decode; save its images again as standard JPEG or PNG files"


@dataclass(frozen=True)
class Limits:
    """The limits of one request; `seconds` is CPU time, `wall_seconds` is the time until its client gives up."""

    images: int
    pixels: int
    seconds: float
    wall_seconds: float


@dataclass(frozen=True)
class Pace:
    """What tells one lane from the others; `kept` processes are started with the service, more when they are needed."""

    kept: int
    processes: int
    niceness: int
    ahead: int
    seconds: float
    wall_seconds: float
    max_cost: float
    max_memory: int


class Owner(Protocol):
    """What a lane tells and asks the decoders that it belongs to."""

    def answered(self, lane: Lane, job: Job, answer: Answer, content: bytes) -> None:
        """Take the checked answer to a request and the bytes of its images."""

    def died(self, job: Job, process: DecoderProcess) -> None:
        """Take a request that was being decoded when its process ended."""

    def restarted(self) -> None:
        """Note that a process has ended and is replaced."""

    def has_memory(self, lane: Lane, job: Job) -> bool:
        """Return whether there is enough memory to begin with a request."""

    def send_next(self) -> None:
        """Begin with what fits in memory now that a request has ended."""


class Lane:
    """A fair queue and the processes that work on it."""

    def __init__(self, limits: Limits, pace: Pace, owner: Owner) -> None:
        self.queue: FairQueue[Job] = FairQueue(shared=True)
        self.processes: list[DecoderProcess] = []
        self._limits, self._pace = limits, pace
        self._owner = owner
        self._starts: set[asyncio.Task[None]] = set()
        self._closed = False

    def add(self, job: Job) -> None:
        """Queue a request."""
        self.queue.push(job, job.body.client, job.cost)
        self.send_next()

    @property
    def memory(self) -> int:
        """Return the expected bytes of all requests that are being decoded."""
        return sum(job.memory for process in self.processes for job in process.jobs)

    async def grow(self, delay: float = 0.0) -> None:
        """Start another process."""
        await asyncio.sleep(delay)
        process = DecoderProcess(self._answered, self._ended)
        try:
            await process.start(self._limits.pixels, self._pace.niceness)
        except OSError:  # out of memory, processes or files
            self._start(self.grow(RETRY_SECONDS))
            return
        self.processes.append(process)
        if self._closed:
            process.close()
        self.send_next()

    def look(self, now: float) -> None:
        """End processes that have worked on one request for too long, and those that are no longer needed."""
        for process in [process for process in self.processes if process.was_ready]:
            seconds = now - process.since
            if process.jobs and seconds > self._pace.wall_seconds:
                process.kill()
            if not process.jobs and seconds > IDLE_SECONDS and len(self.processes) > self._pace.kept:
                self.processes.remove(process)
                process.close()

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for start in self._starts:
            start.cancel()
        for process in self.processes:
            process.close()

    def _start(self, start: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(start)
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    def send_next(self) -> None:
        """Send requests to free processes, and start another process if there is none."""
        while self.queue and self._owner.has_memory(self, self.queue.first()):
            process = self._free_process(len(self.queue.first().body.content))
            if process is None:
                if not self._starts and len(self.processes) < self._pace.processes:
                    self._start(self.grow())
                return
            job = self.queue.pop()
            if self._pace.ahead == 1:
                job.begins()
            process.send(job, self._task(job))

    def _free_process(self, length: int) -> DecoderProcess | None:
        alive = [process for process in self.processes if not process.has_ended and not process.is_spent]
        for process in sorted(alive, key=lambda process: (not process.was_ready, len(process.jobs))):
            ahead = sum(len(job.body.content) for job in process.jobs)
            if not process.jobs or (len(process.jobs) < self._pace.ahead and ahead + length <= AHEAD_BYTES):
                return process
        return None

    def _task(self, job: Job) -> Task:
        return Task(
            boundary=job.body.boundary.decode("latin-1"),
            preprocess=job.body.preprocess,
            max_images=self._limits.images,
            max_pixels=self._limits.pixels,
            max_cost=self._pace.max_cost,
            max_memory=self._pace.max_memory,
            max_seconds=self._pace.seconds,
        )

    def _answered(self, process: DecoderProcess, header: bytes, content: bytes) -> None:
        try:
            answer = check_answer(process.jobs[0].body, header, content)
        except (ValueError, IndexError):  # not an answer: whatever runs there is no longer our program
            process.kill()
            return
        job = process.jobs.popleft()
        job.process = None
        self.queue.charge(job.body.client, answer.seconds - job.cost)
        if answer.exhausted:  # whatever still holds its memory ends with it
            process.is_spent = True
            process.kill()
        if not job.answer.done():
            self._owner.answered(self, job, answer, content)
        self._owner.send_next()

    def _ended(self, process: DecoderProcess) -> None:
        if self._closed or process not in self.processes:  # it was ended because it was no longer needed
            return
        self.processes.remove(process)
        self._owner.restarted()
        working = process.jobs[0] if process.jobs and process.was_ready and not process.is_spent else None
        for job in process.jobs:
            job.process = None
            if job.answer.done():
                continue
            if job is working:
                self._owner.died(job, process)
            else:  # sent ahead: it had not begun
                self.queue.push(job, job.body.client, job.cost)
        if not process.was_ready:
            self._start(self.grow(RETRY_SECONDS))
        elif len(self.processes) < self._pace.kept:
            self._start(self.grow())
        self._owner.send_next()


class Decoders:
    """Three lanes, so that images that take long never delay those that do not; huge ones are decoded one at a time.

    Args:
        slow: most processes of the slow lane.
        restarted: called when a process has ended and is replaced.
    """

    def __init__(self, limits: Limits, slow: int, restarted: Callable[[], None] = lambda: None) -> None:
        paces = (
            Pace(1, 1, 0, AHEAD, QUICK_SECONDS, QUICK_WALL_SECONDS, QUICK_COST, PHOTO_BYTES),
            Pace(1, slow, 10, 1, limits.seconds, limits.wall_seconds, PHOTO_COST, PHOTO_BYTES),
            Pace(0, 1, 15, 1, limits.seconds, limits.wall_seconds, ANY_COST, ANY_BYTES),
        )
        self._lanes = [Lane(limits, pace, self) for pace in paces]
        self.restarted = restarted
        self._budget = image_budget(limits.pixels, slow)
        self.quick, self.slow, self.huge = self._lanes
        self.on_cpu: Callable[[Hashable, float], None] = lambda client, seconds: None
        self._seconds = limits.seconds
        self._watch: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start a process for each lane, and wait until the quick one is ready."""
        await self.quick.grow()
        await self.slow.grow()
        process = self.quick.processes[0]
        await asyncio.wait([process.ready], timeout=START_SECONDS)
        if not process.was_ready:
            self.close()
            raise PrunusError("the process that decodes images did not start; see the messages above")
        self._look()

    def close(self) -> None:
        """End all processes; requests that are still being decoded get no answer."""
        if self._watch is not None:
            self._watch.cancel()
        for lane in self._lanes:
            lane.close()

    async def decode(
        self,
        body: Body,
        expect: Callable[[float], None] = lambda seconds: None,
        begins: Callable[[], None] = lambda: None,
    ) -> Decoded:
        """Return the images of a request, or raise a refusal; a request that is cancelled is not decoded.

        Args:
            expect: called with the seconds that decoding will probably take, when a request is moved to another lane.
            begins: called when a process of the slow or huge lane begins to decode it.
        """
        answer: asyncio.Future[Decoded] = asyncio.get_running_loop().create_future()
        job = Job(body, answer, expected_seconds(len(body.content)), PHOTO_BYTES, expect, begins)
        (self.quick if len(body.content) <= SMALL_BYTES else self.slow).add(job)
        try:
            return await answer
        finally:
            if answer.cancelled():
                self._abandon(job)

    def _abandon(self, job: Job) -> None:
        if job.process is None:
            for lane in self._lanes:
                lane.queue.discard(job)
            self.send_next()
        else:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end_work_on, job)

    def _end_work_on(self, job: Job) -> None:
        process = job.process
        if process is not None and process.was_ready and process not in self.quick.processes:
            process.kill()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        for lane in self._lanes:
            lane.look(loop.time())
        self._watch = loop.call_later(WATCH_SECONDS, self._look)

    def has_memory(self, lane: Lane, job: Job) -> bool:
        """Return whether there is enough memory to begin with a request.

        A huge image that waits for memory claims it before the next photographs. One photograph fits beside any.
        """
        used = self.slow.memory
        if lane is self.quick or not used:
            return True
        if lane is self.slow:
            used += self.huge.memory or (self.huge.queue.first().memory if self.huge.queue else 0)
        return used + job.memory <= self._budget

    def send_next(self) -> None:
        """Begin with what fits in memory now that a request has ended."""
        for lane in reversed(self._lanes):
            lane.send_next()

    def answered(self, lane: Lane, job: Job, answer: Answer, content: bytes) -> None:
        """Take the checked answer to a request and the bytes of its images."""
        self.on_cpu(job.body.client, answer.seconds)
        if answer.cost and (lane is self.quick or not answer.status):
            is_huge = not answer.status and (answer.cost > PHOTO_COST or answer.memory > PHOTO_BYTES)
            job.cost, job.memory = answer.cost, answer.memory or PHOTO_BYTES
            job.expect(answer.cost)
            (self.huge if is_huge else self.slow).add(job)
        elif answer.exhausted and not job.exhausted:  # a fresh process may have more memory than this one had left
            job.exhausted = True
            (self.huge if lane is self.huge else self.slow).add(job)
        elif answer.status:
            job.answer.set_exception(Refusal(answer.status, answer.message))
        else:
            side = job.body.preprocess.size
            images = np.frombuffer(content, np.uint8).reshape(len(answer.names), 3, side, side)
            job.answer.set_result(Decoded(answer.names, list(images), answer.seconds))

    def died(self, job: Job, process: DecoderProcess) -> None:
        """Take a request that was being decoded when its process ended."""
        job.deaths += 1
        if process.used_up_its_time:
            self.on_cpu(job.body.client, self._seconds)
        if process.used_up_its_time or job.deaths == MAX_DEATHS:
            message = TOO_SLOW if process.used_up_its_time else STOPPED
            job.answer.set_exception(Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, message))
        else:
            job.memory = PHOTO_BYTES
            self.slow.add(job)


def expected_seconds(length: int) -> float:
    """Return how long decoding a request of some bytes takes, as far as is known before its headers are read."""
    return REQUEST_GUESS + length * BYTE_GUESS


def check_answer(body: Body, header: bytes, content: bytes) -> Answer:
    """Read an answer, or raise a ValueError if its bytes are not the images that it names."""
    answer = Answer.model_validate_json(header)
    if len(content) != len(answer.names) * 3 * body.preprocess.size**2:
        raise ValueError(f"an answer with {len(answer.names)} images has {len(content)} bytes")
    if not (answer.names or answer.status or answer.cost):
        raise ValueError("an answer without images, refusal or cost")
    return answer
