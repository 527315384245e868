"""Connections with time and size limits, which web servers usually leave to a proxy."""

import asyncio
import socket
from typing import Any, ClassVar

from starlette.responses import JSONResponse
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prunus.serving.guarding.deadline import LATE_SECONDS
from prunus.serving.refusals import overloaded
from prunus.serving.settings import ServeSettings

MAX_HEAD_BYTES = 64 * 1024  # request line and headers
MAX_AHEAD = 100  # pipelined requests without a response; a single read may contain thousands


class GuardedConnection(HttpToolsProtocol):
    """A connection that is closed if its client sends no request, an endless one, or does not read the response.

    While the application works on a request, the application's own limits apply.
    """

    settings: ClassVar[ServeSettings]

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the idle timer; at the connection limit, close the longest idle connection or answer with 503."""
        super().connection_made(transport)
        # asyncio does not set this for listeners passed to it; short responses would be delayed by 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._active_at = self.loop.time()
        self._head_bytes = 0
        self._aborted = False
        self._start_timer(self.settings.request_seconds)
        if len(self.connections) > self.settings.max_connections and not self._make_room():
            self.app = too_many_connections

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    @override
    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= MAX_AHEAD and not self._aborted:
            self._abort()
        if self._aborted:  # the parser still reads the rest of the received bytes
            return
        self._active_at = self.loop.time()
        self._head_bytes = 0
        super().on_headers_complete()

    @override
    def on_body(self, body: bytes) -> None:
        """Reset the size of the head, because these bytes belong to a body."""
        self._head_bytes = 0
        super().on_body(body)

    @override
    def on_response_complete(self) -> None:
        self._active_at = self.loop.time()
        super().on_response_complete()

    @override
    def pause_writing(self) -> None:
        """Restart the idle time when the client stops reading; the connection now counts as idle."""
        self._active_at = self.loop.time()
        super().pause_writing()

    @override
    def resume_writing(self) -> None:
        self._active_at = self.loop.time()
        super().resume_writing()

    @property
    def _working(self) -> bool:
        if self.flow.write_paused or self.transport.is_closing():
            return False
        return self.cycle is not None and not self.cycle.response_complete

    def _abort(self) -> None:
        self._aborted = True  # the server lists it until the event loop has closed it
        self.transport.abort()

    def _make_room(self) -> bool:
        """Close the longest idle connection, and return whether the number of connections is within the limit."""
        guarded_ones = (other for other in self.connections if isinstance(other, GuardedConnection))
        left = [other for other in guarded_ones if not other._aborted]
        idle = [other for other in left if other is not self and not other._working]
        if len(left) > self.settings.max_connections and idle:
            min(idle, key=lambda other: other._active_at)._abort()
            return True
        return len(left) <= self.settings.max_connections

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._check_idle, self.loop.time() + seconds)

    def _check_idle(self, due: float) -> None:
        now = self.loop.time()
        if now > due + LATE_SECONDS:  # the whole process was suspended, so the client's bytes could not be read
            self._active_at = now
        rest = self._active_at + self.settings.request_seconds - now
        if rest <= 0 and not self._working:
            self._abort()
        else:
            self._start_timer(max(rest, 0.1))


def guarded(settings: ServeSettings) -> type[GuardedConnection]:
    """Return the connection class for a service with these settings."""
    return type("Connection", (GuardedConnection,), {"settings": settings})


async def too_many_connections(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # the server's types
    """Answer every request on a connection beyond the limit with 503."""
    refusal = overloaded("too many connections are open")
    headers = refusal.headers | {"Connection": "close"}
    await JSONResponse({"error": refusal.message}, refusal.status, headers)(scope, receive, send)
