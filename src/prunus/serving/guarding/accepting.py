"""Accept connections few at a time, and never more than there are file descriptors for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

BURST = 8  # connections per turn of the event loop, so that those that make room for them are closed in between
PAUSE_SECONDS = 0.01


class Acceptor:
    """Accepts the connections of one listener; those that do not fit yet wait in the system's queue.

    An event loop would accept as many as come, and reset all of them when the descriptors run out.

    Args:
        make_protocol: makes the protocol of a new connection.
        has_room: takes the number of connections that were accepted a moment ago, and returns whether one more fits.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        has_room: Callable[[int], bool],
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._has_room = has_room
        self._loop = asyncio.get_running_loop()
        self._starting: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Stop accepting."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """Wait for the connections that were accepted last."""
        if self._starting:
            await asyncio.wait(self._starting)

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(BURST):
            if not self._has_room(len(self._starting)):
                return self._wait()
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return None
            except OSError:  # no descriptors or no memory, although there should be some
                return self._wait()
            connection.setblocking(False)
            task = self._loop.create_task(self._start(connection))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
        return None

    def _wait(self) -> None:
        self._loop.remove_reader(self._listener)
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._listen)

    async def _start(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:  # the client is gone again
            connection.close()
