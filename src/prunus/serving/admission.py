"""Who gets in: how many requests wait for an answer and how many bytes they hold, counted on the event loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prunus.serving.refusals import overloaded


class Admission:
    """Counts what is inside and refuses at once what would be too much.

    A request that is still being sent holds its bytes but no place, so that slow clients keep nobody out.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self.requests = 0
        self.arriving = 0  # requests that are being sent or decoded, and will join a batch
        self.bytes = 0
        self._max_requests = max_requests
        self._max_bytes = max_bytes

    def check(self) -> None:
        """Refuse where no place is free."""
        if self.requests >= self._max_requests:
            raise overloaded(f"{self.requests} requests wait for their answers")

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place for as long as an answer is worked on."""
        self.check()
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    @contextmanager
    def load(self) -> Iterator[Load]:
        """Count the bytes of one request for as long as it is here."""
        load = Load(self)
        try:
            yield load
        finally:
            load.arrived()
            self.bytes -= load.bytes

    def take(self, count: int) -> None:
        """Count more bytes, or refuse them."""
        if self.bytes + count > self._max_bytes:
            raise overloaded(f"its clients are sending {self.bytes:,} bytes")
        self.bytes += count


class Load:
    """The bytes of one request."""

    def __init__(self, admission: Admission) -> None:
        self.bytes = 0
        self._admission = admission
        self._arriving = True
        admission.arriving += 1

    def arrived(self) -> None:
        """Say that no other request need wait for this one."""
        self._admission.arriving -= self._arriving
        self._arriving = False

    def add(self, count: int) -> None:
        """Count more bytes."""
        self._admission.take(count)
        self.bytes += count
