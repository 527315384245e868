"""Admission control: limits on waiting requests and on the bytes they hold, counted on the event loop.

If there is no room for a request, it may take the place of a much heavier one that nobody works on yet.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prunus.serving.guarding.arrivals import Arrivals
from prunus.serving.refusals import Refusal, overloaded

EXPECTED_SECONDS = 0.05  # a request that takes longer to arrive or to decode is not worth waiting for
DROPPED_SECONDS = 1.0  # until a request that lost its place is refused, so that it is not repeated at full speed
HEAVIER = 2.0  # times the weight of a newcomer: a request that is heavier loses its place to it


class Admission:
    """Counters of the requests and bytes in the service.

    A request that is still being sent takes no slot. Its bytes are counted apart (`arrivals`) and only fill what the
    complete requests leave free, so slow clients do not block others.

    A complete request that finds no free slot takes that of the heaviest request, which is refused instead. The weight
    is the seconds that a request is expected to take, times the number of requests that its address has in the queue.
    If the bytes are used up, the weight is the bytes that a request holds, times the same number.
    """

    def __init__(self, max_requests: int, max_bytes: int, min_rate: float = 0.0) -> None:
        self.arrivals = Arrivals(max_bytes, min_rate)
        self._coming: dict[Load, float] = {}  # requests that are being sent or decoded, the newest last
        self._placed: dict[Load, None] = {}  # requests with a slot, the newest last
        self._addresses: Counter[str] = Counter()  # their addresses
        self._held = 0
        self._max_requests = max_requests
        self._max_bytes = max_bytes

    @property
    def requests(self) -> int:
        """Return the number of requests that have a slot."""
        return len(self._placed)

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

    def check(self, load: Load) -> None:
        """Refuse a request if no slot is free and no other request is heavier."""
        self._slot_for(load)

    @contextmanager
    def slot(self, load: Load) -> Iterator[None]:
        """Take a slot while a request is being answered."""
        heaviest = self._slot_for(load)
        if heaviest is not None:
            self._drop(heaviest, f"{self.requests} requests are waiting, and this is the largest")
        self._placed[load] = None
        self._addresses[load.address] += 1
        try:
            yield
        finally:
            self._leave(load)

    @contextmanager
    def load(self, address: str = "") -> Iterator[Load]:
        """Count the bytes of one request until it leaves the service."""
        load = Load(self, address)
        self._coming[load] = time.monotonic()
        try:
            yield load
        finally:
            load.arrived()
            self.release(load)

    def take(self, load: Load, count: int) -> None:
        """Count more bytes of a complete request, or refuse them."""
        while self._held + count > self._max_bytes:
            heaviest = self._heavier(load, _bytes, load.bytes + count)
            if heaviest is None:
                raise overloaded(f"requests already hold {self._held:,} bytes")
            self._drop(heaviest, f"requests hold {self._held:,} bytes, and this one holds the most")
        load.bytes += count
        self._hold(count)

    def release(self, load: Load) -> None:
        """Forget the bytes of a request."""
        self._hold(-load.bytes)
        load.bytes = 0

    def joined(self, load: Load) -> None:
        """Mark a request as complete: batches no longer wait for it."""
        self._coming.pop(load, None)

    def _slot_for(self, newcomer: Load) -> Load | None:
        """Return the request that loses its slot to a newcomer, or None if a slot is free."""
        if self.requests < self._max_requests:
            return None
        heaviest = self._heavier(newcomer, _seconds, newcomer.seconds)
        if heaviest is None:
            raise overloaded(f"{self.requests} requests are waiting")
        return heaviest

    def _heavier(self, newcomer: Load, size: Callable[[Load], float], own: float) -> Load | None:
        """Return the heaviest request, of equal ones the newest, if it is much heavier than a newcomer."""
        least = HEAVIER * own * max(1, self._addresses[newcomer.address])
        heaviest = None
        for load in self._placed:
            weight = size(load) * self._addresses[load.address]
            if weight >= least and weight > 0 and load.drop is not None and load is not newcomer:
                heaviest, least = load, weight
        return heaviest

    def _drop(self, load: Load, reason: str) -> None:
        """Refuse a request that waits; its place is free at once, though its task ends a moment later."""
        self._leave(load)
        self.release(load)
        if load.drop is not None:
            refusal = overloaded(reason)
            refusal.delay = DROPPED_SECONDS
            load.drop(refusal)

    def _leave(self, load: Load) -> None:
        if load in self._placed:
            del self._placed[load]
            self._addresses[load.address] -= 1
            if not self._addresses[load.address]:
                del self._addresses[load.address]

    def _hold(self, count: int) -> None:
        self._held += count
        self.arrivals.resize(self._max_bytes - self._held, time.monotonic())


class Load:
    """One complete request: the bytes that it holds, and the seconds that it is expected to take from now on.

    While `drop` is set, the request can be refused in favour of a lighter one.
    """

    def __init__(self, admission: Admission, address: str) -> None:
        self.address = address
        self.bytes = 0
        self.seconds = 0.0
        self.drop: Callable[[Refusal], None] | None = None
        self._admission = admission

    def arrived(self) -> None:
        """Mark the request as complete: batches no longer wait for it."""
        self._admission.joined(self)

    def add(self, count: int) -> None:
        """Count more bytes."""
        self._admission.take(self, count)

    def expect(self, seconds: float) -> None:
        """Set the seconds that the request is expected to take from now on."""
        self.seconds = seconds

    def keep(self) -> None:
        """Mark the request as one that is not refused, because it is being worked on."""
        self.drop = None


def _seconds(load: Load) -> float:
    return load.seconds


def _bytes(load: Load) -> float:
    return float(load.bytes)
