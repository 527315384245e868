"""A decoder process as the service sees it: started, sent requests, and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from prunus.serving.uploads.messages import Body, Decoded, FrameBuffer, Task, frame

PROGRAM = """
import sys
sys.path[:] = {path!r}
from prunus.serving.uploads.decoder import run_decoder
run_decoder({limits})
"""
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",  # threads would take address space; nothing here multiplies matrices
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**20),  # returns the memory of large images to the system immediately
}


@dataclass(eq=False)
class Job:
    """A request on its way through the decoders."""

    body: Body
    answer: asyncio.Future[Decoded]
    cost: float  # expected seconds
    memory: int  # expected bytes
    expect: Callable[[float], None] = lambda seconds: None  # called with the cost when it is moved to another lane
    begins: Callable[[], None] = lambda: None  # called when a process begins that decodes nothing else meanwhile
    deaths: int = 0  # processes that ended while they decoded it
    exhausted: bool = False  # a process ran out of memory while it decoded it
    process: DecoderProcess | None = field(default=None, repr=False)


class DecoderProcess(asyncio.Protocol):
    """One process and the requests that were sent to it; it answers them in their order.

    Args:
        answered: called with this process, and the header and the bytes of each answer.
        ended: called once with this process when it has ended, whoever ended it.
    """

    def __init__(
        self, answered: Callable[[DecoderProcess, bytes, bytes], None], ended: Callable[[DecoderProcess], None]
    ) -> None:
        self.jobs: deque[Job] = deque()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_spent = False  # it is being ended, and works on nothing
        self.since = 0.0  # when the first of the jobs began, or the last one ended
        self._answered = answered
        self._ended = ended
        self._frames = FrameBuffer()
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.WriteTransport | None = None

    async def start(self, max_pixels: int, niceness: int) -> None:
        """Start the process without waiting until it is ready."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _launch(theirs, f"{max_pixels}, {niceness}")
        if sys.platform != "win32":
            await loop.create_unix_connection(lambda: self, sock=ours)
        else:
            await loop.create_connection(lambda: self, sock=ours)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.WriteTransport, transport)  # the transports of uvloop have no such base class

    def send(self, job: Job, task: Task) -> None:
        """Send a request."""
        assert self._transport is not None
        if not self.jobs:
            self.since = asyncio.get_running_loop().time()
        self.jobs.append(job)
        job.process = self
        content = job.body.content
        self._transport.writelines([frame(task, len(content)), content])

    def data_received(self, data: bytes) -> None:
        """Hand on complete answers."""
        self._frames.feed(data)
        while (message := self._frames.next_message()) is not None:
            self.since = asyncio.get_running_loop().time()
            if not self.ready.done():
                self.ready.set_result(None)
            else:
                self._answered(self, *message)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end of the process; it has closed its files, so that waiting for it takes no time."""
        self.kill()
        if self._process is not None:
            self._process.wait()
        self.ready.cancel()
        self._ended(self)

    def kill(self) -> None:
        """End the process; `ended` is called once it has."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process, and wait for it."""
        self.kill()
        if self._transport is not None:
            self._transport.abort()
        if self._process is not None:
            self._process.wait()

    @property
    def was_ready(self) -> bool:
        """Return whether the process started."""
        return self.ready.done() and not self.ready.cancelled()

    @property
    def has_ended(self) -> bool:
        """Return whether the process is gone, though the event loop may not have noticed yet."""
        return self._process is not None and self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def used_up_its_time(self) -> bool:
        """Return whether the system ended the process because of its CPU time."""
        return sys.platform != "win32" and self._process is not None and self._process.returncode == -signal.SIGXCPU


def _launch(connection: socket.socket, limits: str) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter, so that it shares neither memory nor files with the service."""
    command = [sys.executable, "-c", PROGRAM.format(path=sys.path, limits=limits)]
    environment = os.environ | ENVIRONMENT
    if sys.platform != "win32":  # a session of its own: Ctrl-C in a terminal does not reach it
        return subprocess.Popen(
            command, stdin=connection.fileno(), stdout=subprocess.DEVNULL, env=environment, start_new_session=True
        )
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)
    with process.stdin:
        process.stdin.write(connection.share(process.pid))
    return process
