"""Connections with time and size limits, which web servers usually leave to a proxy."""

import asyncio
import heapq
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

from starlette.responses import JSONResponse
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prunus.serving.guarding.arrivals import Arrival, Arrivals
from prunus.serving.guarding.deadline import LATE_SECONDS
from prunus.serving.guarding.headers import declared_bytes
from prunus.serving.guarding.hosts import Hosts
from prunus.serving.guarding.quotas import Quotas, address_of
from prunus.serving.refusals import Refusal, overloaded

MAX_HEAD_BYTES = 64 * 1024  # request line and headers
MAX_AHEAD = 100  # pipelined requests without a response; a single read may contain thousands
PIECE_BYTES = 64 * 1024  # a body reaches the application in pieces of this size: each one wakes up its task
EVICTED_AT_ONCE = 16  # looking at all connections for each new one would take a fifth of a core
IDLE_SECONDS = 1.0  # without use; only such connections are closed before their place is needed
MANY_PARTS = 1000  # of a body, as chunks or packets; each one takes some microseconds ...
SMALL_PART = 64  # ... so that many that have fewer bytes are refused
HEALTH = b"/health"
CROWDED = "too many connections are open"


@dataclass(frozen=True)
class Guard:
    """What all connections of a service share."""

    request_seconds: float
    max_connections: int
    arrivals: Arrivals
    hosts: Hosts
    quotas: Quotas


class GuardedConnection(HttpToolsProtocol):
    """A connection that is closed if its client sends no request, an endless one, or does not read the response.

    While the application works on a complete request, the application's own limits apply.
    """

    guard: ClassVar[Guard]

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the idle timer; at the connection limit, close the connection that is of least use."""
        super().connection_made(transport)
        # asyncio does not set this for listeners passed to it; short responses would be delayed by 40 ms
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._active_at = self.loop.time()
        self._head_bytes = 0
        self._aborted = False
        self._arrival: Arrival | None = None
        self._held_bytes = 0
        self._piece = bytearray()
        self._parts = 0
        self.address = address_of(self.client)
        self.guard.quotas.open(self.address)
        self._start_timer(self.guard.request_seconds)
        self._crowded = not self._make_room()
        self._beyond_quota = not self._keep_quota()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._end_arrival()
        self._release_bytes()
        self.guard.quotas.close(self.address)
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
        self._piece.clear()
        self._parts = 0
        if self._crowded:
            self._crowded = not self._make_room()
        refusal = self._refusal()
        self.app = self.config.loaded_app if refusal is None else refusing(refusal)
        super().on_headers_complete()
        self._arrival = self.guard.arrivals.begin(self.loop, self.give_up)
        declared = declared_bytes(next((value for name, value in self.headers if name == b"content-length"), b""))
        if declared and refusal is None:
            self.guard.arrivals.expect(self._arrival, declared, self._active_at)

    @override
    def on_body(self, body: bytes) -> None:
        """Count the bytes of a body, which do not belong to a head, and collect small pieces of it."""
        self._head_bytes = 0
        if self._aborted:  # the parser still reads the rest of the received bytes
            return
        self._piece += body
        if len(self._piece) >= PIECE_BYTES:
            self._hand_on_piece()
        if self._arrival is None:
            return
        self._held_bytes += len(body)
        self.guard.quotas.hold(self.address, len(body))
        self.guard.arrivals.add(self._arrival, len(body), self.loop.time())
        self._parts += 1
        if self._arrival is not None and (refusal := self._refusal_of_body(self._arrival.bytes)) is not None:
            self.guard.arrivals.give_up(self._arrival, refusal)

    @override
    def on_message_complete(self) -> None:
        self._end_arrival()
        self._hand_on_piece()
        super().on_message_complete()

    @override
    def on_response_complete(self) -> None:
        self._active_at = self.loop.time()
        if self.cycle.response_complete:
            self._end_arrival()  # the rest of the body is not kept
            self._release_bytes()
        elif self._arrival is not None:
            self._arrival.restart(self._active_at)  # it could not be sent before
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
    def evictable(self) -> bool:
        """Return whether the connection is open and no complete request on it waits for its response."""
        return not self._aborted and (not self._working or (self._arrival is not None and not self.pipeline))

    def useful_at(self, now: float) -> tuple[float, float]:
        """Return when the connection was last of use, and the rate of its body: the lowest is closed first."""
        if self._arrival is None or not self._working:
            return self._active_at, 0.0
        return self.guard.arrivals.useful_at(self._arrival, now)

    def give_up(self, refusal: Refusal) -> None:
        """Answer a request that is still arriving with a refusal, and close the connection."""
        self._end_arrival()
        if not self._working or self.cycle.response_started:
            self._abort()
            return
        self._aborted = True
        self.transport.write(encode_refusal(refusal, self.server_state.default_headers))
        self.transport.close()

    def evict(self) -> None:
        """Close the connection to make room for another one."""
        if self._arrival is not None and self._working:
            self.guard.arrivals.give_up(self._arrival, overloaded(f"{CROWDED}, and this request arrives too slowly"))
        else:
            self._abort()

    @property
    def _working(self) -> bool:
        if self.flow.write_paused or self.transport.is_closing():
            return False
        return self.cycle is not None and not self.cycle.response_complete

    def _refusal(self) -> Refusal | None:
        """Return the refusal of a request that the application shall not see; the health has a lane of its own."""
        if (refusal := self.guard.hosts.refusal(self.headers)) is not None:
            return refusal
        if self.url.partition(b"?")[0] == HEALTH:
            return None
        if self._crowded:
            return overloaded(CROWDED, hang_up=True)
        quotas = self.guard.quotas
        if self._beyond_quota and (refusal := quotas.too_many_connections(self.address)) is not None:
            return refusal
        return quotas.too_many_bytes(self.address) or quotas.too_much_cpu(self.address, self.loop.time())

    def _refusal_of_body(self, received: int) -> Refusal | None:
        if self._parts > MANY_PARTS and received < SMALL_PART * self._parts:
            return Refusal(
                HTTPStatus.BAD_REQUEST,
                f"the request arrives in {self._parts:,} parts of {received / self._parts:.1f} bytes; "
                f"send at least {SMALL_PART} bytes at a time",
                hang_up=True,
            )
        return self.guard.quotas.too_many_bytes(self.address)

    def _hand_on_piece(self) -> None:
        if self._piece:
            super().on_body(bytes(self._piece))
            self._piece.clear()

    def _end_arrival(self) -> None:
        if self._arrival is not None:
            self.guard.arrivals.end(self._arrival)
            self._arrival = None

    def _release_bytes(self) -> None:
        self.guard.quotas.hold(self.address, -self._held_bytes)
        self._held_bytes = 0

    def _abort(self) -> None:
        self._aborted = True  # the server lists it until the event loop has closed it
        self.transport.abort()

    def _make_room(self) -> bool:
        """Close the connection of least use, and return whether the number of connections is within the limit."""
        if len(self.connections) <= self.guard.max_connections:
            return True
        left = [other for other in self.connections if isinstance(other, GuardedConnection) and not other._aborted]
        if len(left) <= self.guard.max_connections:
            return True
        return evict_some((other for other in left if other is not self), self.loop.time())

    def _keep_quota(self) -> bool:
        """Close the connection of least use of an address with too many, and return whether that was possible."""
        if self.guard.quotas.too_many_connections(self.address) is None:
            return True
        others = (other for other in self.connections if isinstance(other, GuardedConnection) and other is not self)
        return evict_some((other for other in others if other.address == self.address), self.loop.time())

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._check_idle, self.loop.time() + seconds)

    def _check_idle(self, due: float) -> None:
        now = self.loop.time()
        if now > due + LATE_SECONDS:  # the whole process was suspended, so the client's bytes could not be read
            self._active_at = now
        rest = self._active_at + self.guard.request_seconds - now
        if rest <= 0 and not self._working:
            self._abort()
        else:
            self._start_timer(max(rest, 0.1))


def evict_some(connections: Iterable[GuardedConnection], now: float) -> bool:
    """Close the connection of least use and a few more that are of no use, and return whether there was one.

    The longest idle one goes first, and a body that arrives too slowly counts as idle from its start. Then the slowest
    of the bodies that arrive in time follow. A connection with a complete request is never closed.
    """
    uses = ((each.useful_at(now), number, each) for number, each in enumerate(connections) if each.evictable)
    least = heapq.nsmallest(EVICTED_AT_ONCE, uses)  # the number decides between equal ones: connections have no order
    for number, ((used_at, _), _, connection) in enumerate(least):
        if number == 0 or used_at < now - IDLE_SECONDS:
            connection.evict()
    return bool(least)


def guarded(guard: Guard) -> type[GuardedConnection]:
    """Return the connection class of a service."""
    return type("Connection", (GuardedConnection,), {"guard": guard})


def refusing(refusal: Refusal) -> Any:  # noqa: ANN401  # an application in the server's types
    """Return an application that answers every request with a refusal."""
    return JSONResponse({"error": refusal.message}, refusal.status, refusal.headers)


def encode_refusal(refusal: Refusal, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a refusal as the bytes of a response after which the connection is closed."""
    response = JSONResponse({"error": refusal.message}, refusal.status, refusal.headers | {"Connection": "close"})
    status = HTTPStatus(refusal.status)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in (*headers, *response.raw_headers)]
    return b"\r\n".join([*lines, b"", bytes(response.body)])
