"""A fair queue: clients take turns, and among clients that have used as much, the cheapest request is first.

This is self-clocked fair queueing. Each client has a clock that its requests advance by the seconds that they take, and
the request that leaves its client's clock lowest is next. A client that was away starts at the clock of the queue, so
that it cannot save up turns.
"""

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
MAX_CLIENTS = 4096  # clocks that are kept; those of clients that are not ahead of the others are dropped first


class FairQueue(Generic[T]):
    """Requests of several clients, in fair order."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, float, int, T]] = []  # of two that are due, the newer client's is first
        self._clocks: dict[Hashable, float] = {}
        self._clock = 0.0
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, item: T, client: Hashable, seconds: float) -> None:
        """Queue a request that is expected to take some seconds."""
        before = self._clocks.get(client, 0.0)
        due = max(self._clock, before) + seconds
        self._keep(client, due)
        heapq.heappush(self._heap, (due, before, next(self._numbers), item))

    def first(self) -> T:
        """Return the next request without removing it."""
        return self._heap[0][-1]

    def pop(self) -> T:
        """Remove the next request."""
        self._clock, *_, item = heapq.heappop(self._heap)
        return item

    def charge(self, client: Hashable, seconds: float) -> None:
        """Add what a request took beyond its expected seconds to the clock of its client."""
        self._keep(client, max(self._clock, self._clocks.get(client, 0.0)) + max(0.0, seconds))

    def discard(self, item: T) -> None:
        """Remove a request that is no longer needed."""
        self._heap = [entry for entry in self._heap if entry[-1] is not item]
        heapq.heapify(self._heap)

    def _keep(self, client: Hashable, clock: float) -> None:
        self._clocks[client] = clock
        if len(self._clocks) > MAX_CLIENTS:
            latest = sorted(self._clocks.items(), key=lambda entry: entry[1])[MAX_CLIENTS // 2 :]
            self._clocks = dict(latest)
