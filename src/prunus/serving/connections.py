"""A connection that cannot be kept open by doing nothing: what a web server leaves to the proxy before it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prunus.serving.refusals import overloaded
from prunus.serving.settings import ServeSettings

MAX_HEAD_BYTES = 64 * 1024  # of a request line and headers


class GuardedConnection(HttpToolsProtocol):
    """Closes a connection whose request does not come, does not end, or whose answer is not taken.

    While the application works on a request, the application's own limits hold.
    """

    settings: ClassVar[ServeSettings]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock; a connection too many gets its answer, and more than that are dropped."""
        super().connection_made(transport)
        self._since, self._head_bytes = self.loop.time(), 0
        self._clock = self.loop.call_later(self.settings.request_seconds, self._check_clock)
        if len(self.connections) > 2 * self.settings.max_connections:
            transport.abort()
        elif len(self.connections) > self.settings.max_connections:
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
        """Take note that a request begins."""
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

    def _check_clock(self) -> None:
        working = self.cycle is not None and not self.cycle.response_complete and not self.transport.is_closing()
        rest = self._since + self.settings.request_seconds - self.loop.time()
        if rest <= 0 and not working:
            self.transport.abort()
            return
        self._clock = self.loop.call_later(max(rest, 1.0), self._check_clock)


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
