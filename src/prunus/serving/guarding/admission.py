"""Admission control: limits on waiting requests and on the bytes they hold, counted on the event loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prunus.serving.guarding.arrivals import Arrivals
from prunus.serving.refusals import overloaded

EXPECTED_SECONDS = 0.05  # a request that takes longer to arrive or to decode is not worth waiting for


class Admission:
    """Counters of the requests and bytes in the service; requests beyond a limit are refused immediately.

    A request that is still being sent takes no slot. Its bytes are counted apart (`arrivals`) and only fill what the
    complete requests leave free, so slow clients do not block others.
    """

    def __init__(self, max_requests: int, max_bytes: int, min_rate: float = 0.0) -> None:
        self.requests = 0
        self.arrivals = Arrivals(max_bytes, min_rate)
        self._coming: dict[Load, float] = {}  # requests that are being sent or decoded, the newest last
        self._held = 0
        self._max_requests = max_requests
        self._max_bytes = max_bytes

    @property
    def arriving(self) -> int:
        """Return the number of requests that are being sent or decoded and will join a batch."""
        return len(self._coming)

    @property
    def bytes(self) -> int:
        """Return the bytes that all requests hold."""
        return self._held + self.arrivals.bytes

    def expects_more(self) -> bool:
        """Return whether another request will probably join a batch within a moment."""
        newest = next(reversed(self._coming.values()), None)
        return newest is not None and time.monotonic() - newest < EXPECTED_SECONDS

    def check(self) -> None:
        """Refuse a request if no slot is free."""
        if self.requests >= self._max_requests:
            raise overloaded(f"{self.requests} requests are waiting")

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Take a slot while a request is being answered."""
        self.check()
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextmanager
    def load(self) -> Iterator[Load]:
        """Count the bytes of one request until it leaves the service."""
        load = Load(self)
        self._coming[load] = time.monotonic()
        try:
            yield load
        finally:
            load.arrived()
            self._hold(-load.bytes)

    def take(self, count: int) -> None:
        """Count more bytes of a complete request, or refuse them."""
        if self._held + count > self._max_bytes:
            raise overloaded(f"requests already hold {self._held:,} bytes")
        self._hold(count)

    def joined(self, load: Load) -> None:
        """Mark a request as complete: batches no longer wait for it."""
        self._coming.pop(load, None)

    def _hold(self, count: int) -> None:
        self._held += count
        self.arrivals.resize(self._max_bytes - self._held, time.monotonic())


class Load:
    """The bytes of one complete request."""

    def __init__(self, admission: Admission) -> None:
        self.bytes = 0
        self._admission = admission

    def arrived(self) -> None:
        """Mark the request as complete: batches no longer wait for it."""
        self._admission.joined(self)

    def add(self, count: int) -> None:
        """Count more bytes."""
        self._admission.take(count)
        self.bytes += count
