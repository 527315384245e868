"""A connection that cannot be kept open by doing nothing: what a web server leaves to the proxy before it."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prunus.serving.patience import LATE_SECONDS
from prunus.serving.refusals import overloaded
from prunus.serving.settings import ServeSettings

MAX_HEAD_BYTES = 64 * 1024  # of a request line and headers
MAX_AHEAD = 100  # requests that are sent before the answers to earlier ones are taken; one read may hold thousands


class GuardedConnection(HttpToolsProtocol):
    """Closes a connection whose request does not come, does not end, or whose answer is not taken.

    While the application works on a request, the application's own limits hold.
    """

    settings: ClassVar[ServeSettings]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; at the limit the longest idle connection makes room, or this one is told to come later."""
        super().connection_made(transport)
        # asyncio forgets it for sockets that were bound by hand, and then a short answer is held back for 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._since, self._head_bytes, self._given_up = self.loop.time(), 0, False
        self._wind_clock(self.settings.request_seconds)
        if len(self.connections) > self.settings.max_connections and not self._make_room():
            self.app = too_many_connections

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._clock.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Refuse a head without end."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        """Take note that a request begins; hang up on who asks far ahead of the answers."""
        if len(self.pipeline) >= MAX_AHEAD and not self._given_up:
            self._give_up()
        if self._given_up:  # the rest of what was received is still read
            return
        self._since, self._head_bytes = self.loop.time(), 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take note that bytes belong to no head."""
        self._head_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Take note that a request has ended."""
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Take note that the client does not take its answers: from now on nobody works for it."""
        self._since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Take note that the client has taken what was there."""
        self._since = self.loop.time()
        super().resume_writing()

    @property
    def _working(self) -> bool:
        if self.flow.write_paused or self.transport.is_closing():
            return False
        return self.cycle is not None and not self.cycle.response_complete

    def _give_up(self) -> None:
        self._given_up = True  # it stays in the table until the event loop comes by
        self.transport.abort()

    def _make_room(self) -> bool:
        """Close the connection on which nothing has happened for the longest time."""
        table = (each for each in self.connections if isinstance(each, GuardedConnection))
        left = [each for each in table if not each._given_up]
        idle = [each for each in left if each is not self and not each._working]
        if len(left) > self.settings.max_connections and idle:
            min(idle, key=lambda each: each._since)._give_up()
            return True
        return len(left) <= self.settings.max_connections

    def _wind_clock(self, seconds: float) -> None:
        self._clock = self.loop.call_later(seconds, self._check_clock, self.loop.time() + seconds)

    def _check_clock(self, due: float) -> None:
        now = self.loop.time()
        if now > due + LATE_SECONDS:  # the whole process stood still, and the client could not be heard
            self._since = now
        rest = self._since + self.settings.request_seconds - now
        if rest <= 0 and not self._working:
            self._give_up()
        else:
            self._wind_clock(max(rest, 0.1))


def guarded(settings: ServeSettings) -> type[GuardedConnection]:
    """Make the class of connections for a service."""
    return type("Connection", (GuardedConnection,), {"settings": settings})


async def too_many_connections(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # the server's types
    """Answer any request that comes on a connection too many."""
    refusal = overloaded("too many connections are open")
    body = json.dumps({"error": refusal.message}).encode()
    headers = refusal.headers | {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
