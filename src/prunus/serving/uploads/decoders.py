"""The decoders of a service: lanes of disposable processes for small, large and huge images, with fair queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from http import HTTPStatus

import numpy as np

from prunus.errors import PrunusError
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.fairness import FairQueue
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


class Lane:
    """A fair queue and the processes that work on it.

    Args:
        answered: called with a request, its checked answer and the bytes of its images.
        died: called with a request that was being decoded when its process ended, and the process.
        restarted: called when a process has ended and is replaced.
    """

    def __init__(
        self,
        limits: Limits,
        pace: Pace,
        answered: Callable[[Lane, Job, Answer, bytes], None],
        died: Callable[[Job, DecoderProcess], None],
        restarted: Callable[[], None],
    ) -> None:
        self.queue: FairQueue[Job] = FairQueue()
        self.processes: list[DecoderProcess] = []
        self._limits, self._pace = limits, pace
        self._on_answer, self._on_death, self._on_restart = answered, died, restarted
        self._starts: set[asyncio.Task[None]] = set()
        self._closed = False

    def add(self, job: Job) -> None:
        """Queue a request."""
        self.queue.push(job, job.body.client, job.cost)
        self._send_next()

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
        self._send_next()

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

    def _send_next(self) -> None:
        while self.queue:
            process = self._free_process(len(self.queue.first().body.content))
            if process is None:
                if not self._starts and len(self.processes) < self._pace.processes:
                    self._start(self.grow())
                return
            job = self.queue.pop()
            process.send(job, self._task(job))

    def _free_process(self, length: int) -> DecoderProcess | None:
        alive = [process for process in self.processes if not process.has_ended]
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
            max_cost=job.max_cost,
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
        if not job.answer.done():
            self._on_answer(self, job, answer, content)
        self._send_next()

    def _ended(self, process: DecoderProcess) -> None:
        if self._closed or process not in self.processes:  # it was ended because it was no longer needed
            return
        self.processes.remove(process)
        self._on_restart()
        working = process.jobs[0] if process.jobs and process.was_ready else None
        for job in process.jobs:
            job.process = None
            if job.answer.done():
                continue
            if job is working:
                self._on_death(job, process)
            else:  # sent ahead: it had not begun
                self.queue.push(job, job.body.client, job.cost)
        if not process.was_ready:
            self._start(self.grow(RETRY_SECONDS))
        elif len(self.processes) < self._pace.kept:
            self._start(self.grow())
        self._send_next()


class Decoders:
    """Three lanes, so that images that take long never delay those that do not; huge ones are decoded one at a time.

    Args:
        slow: most processes of the slow lane.
        restarted: called when a process has ended and is replaced.
    """

    def __init__(self, limits: Limits, slow: int, restarted: Callable[[], None] = lambda: None) -> None:
        paces = (
            Pace(1, 1, 0, AHEAD, QUICK_SECONDS, QUICK_WALL_SECONDS),
            Pace(1, slow, 10, 1, limits.seconds, limits.wall_seconds),
            Pace(0, 1, 15, 1, limits.seconds, limits.wall_seconds),
        )
        self._lanes = [Lane(limits, pace, self._answered, self._died, restarted) for pace in paces]
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

    async def decode(self, body: Body) -> Decoded:
        """Return the images of a request, or raise a refusal; a request that is cancelled is not decoded."""
        answer: asyncio.Future[Decoded] = asyncio.get_running_loop().create_future()
        if len(body.content) <= SMALL_BYTES:
            job = Job(body, answer, REQUEST_GUESS + len(body.content) * BYTE_GUESS, QUICK_COST)
            self.quick.add(job)
        else:
            job = Job(body, answer, len(body.content) * BYTE_GUESS, PHOTO_COST)
            self.slow.add(job)
        try:
            return await answer
        finally:
            if answer.cancelled():
                self._abandon(job)

    def _abandon(self, job: Job) -> None:
        if job.process is None:
            for lane in self._lanes:
                lane.queue.discard(job)
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

    def _answered(self, lane: Lane, job: Job, answer: Answer, content: bytes) -> None:
        self.on_cpu(job.body.client, answer.seconds)
        if answer.cost and (lane is self.quick or not answer.status):
            job.cost, job.max_cost = answer.cost, ANY_COST
            (self.slow if answer.cost <= PHOTO_COST or answer.status else self.huge).add(job)
        elif answer.status:
            job.answer.set_exception(Refusal(answer.status, answer.message))
        else:
            side = job.body.preprocess.size
            images = np.frombuffer(content, np.float32).reshape(len(answer.names), 3, side, side)
            job.answer.set_result(Decoded(answer.names, list(images), answer.seconds))

    def _died(self, job: Job, process: DecoderProcess) -> None:
        job.deaths += 1
        self.on_cpu(job.body.client, self._seconds)
        if process.used_up_its_time or job.deaths == MAX_DEATHS:
            message = TOO_SLOW if process.used_up_its_time else STOPPED
            job.answer.set_exception(Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, message))
        else:
            job.max_cost = PHOTO_COST
            self.slow.add(job)


def check_answer(body: Body, header: bytes, content: bytes) -> Answer:
    """Read an answer, or raise a ValueError if its bytes are not the images that it names."""
    answer = Answer.model_validate_json(header)
    if len(content) != len(answer.names) * 3 * body.preprocess.size**2 * 4:
        raise ValueError(f"an answer with {len(answer.names)} images has {len(content)} bytes")
    if not (answer.names or answer.status or answer.cost):
        raise ValueError("an answer without images, refusal or cost")
    return answer
