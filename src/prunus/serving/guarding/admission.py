"""Admission control: limits on waiting requests and on the bytes they hold, counted on the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prunus.serving.refusals import overloaded


class Admission:
    """Counters of the requests and bytes in the service; requests beyond a limit are refused immediately.

    A request that is still being sent holds its bytes but takes no slot, so slow clients do not block others.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self.requests = 0
        self.arriving = 0  # requests that are being sent or decoded and will join a batch
        self.bytes = 0
        self._max_requests = max_requests
        self._max_bytes = max_bytes

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
        try:
            yield load
        finally:
            load.arrived()
            self.bytes -= load.bytes

    def take(self, count: int) -> None:
        """Count more bytes, or refuse them."""
        if self.bytes + count > self._max_bytes:
            raise overloaded(f"requests already hold {self.bytes:,} bytes")
        self.bytes += count


class Load:
    """The bytes of one request."""

    def __init__(self, admission: Admission) -> None:
        self.bytes = 0
        self._admission = admission
        self._arriving = True
        admission.arriving += 1

    def arrived(self) -> None:
        """Mark the request as complete: batches no longer wait for it."""
        if self._arriving:
            self._admission.arriving -= 1
            self._arriving = False

    def add(self, count: int) -> None:
        """Count more bytes."""
        self._admission.take(count)
        self.bytes += count
