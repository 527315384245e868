"""A fair queue: clients take turns, and among clients that have used as much, the cheapest request is first.

Each client has a clock that its requests advance by what they cost, and the request that leaves its client's clock
lowest is next. A client that was away starts at the clock of the queue, so that it cannot save up turns.
"""

import heapq
import itertools
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
MAX_CLIENTS = 4096  # clocks that are kept; those of clients that are not ahead of the others are dropped first


class FairQueue(Generic[T]):
    """Requests of several clients, in fair order.

    Args:
        shared: how the clock of the queue advances. If False, to the clock of the client whose turn it was
            (self-clocked fair queueing). If True, by an equal share of what the request costs for each one that waits,
            as if all were served at the same time (weighted fair queueing): a cheap request then need not wait for
            a round of expensive ones.
    """

    def __init__(self, shared: bool = False) -> None:
        # of two that are due, the newer client's is first
        self._heap: list[tuple[float, float, int, float, T]] = []
        self._clocks: dict[Hashable, float] = {}
        self._clock = 0.0
        self._numbers = itertools.count()
        self._shared = shared

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, item: T, client: Hashable, cost: float) -> None:
        """Queue a request that is expected to cost something, such as seconds."""
        before = self._clocks.get(client, 0.0)
        due = max(self._clock, before) + cost
        self._keep(client, due)
        heapq.heappush(self._heap, (due, before, next(self._numbers), cost, item))

    def first(self) -> T:
        """Return the next request without removing it."""
        return self._heap[0][-1]

    def pop(self) -> T:
        """Remove the next request."""
        due, _, _, cost, item = heapq.heappop(self._heap)
        self._clock = self._clock + cost / (len(self._heap) + 1) if self._shared and self._heap else due
        return item

    def charge(self, client: Hashable, cost: float) -> None:
        """Add what a request took beyond its expected cost to the clock of its client."""
        self._keep(client, max(self._clock, self._clocks.get(client, 0.0)) + max(0.0, cost))

    def discard(self, item: T) -> None:
        """Remove a request that is no longer needed."""
        self._heap = [entry for entry in self._heap if entry[-1] is not item]
        heapq.heapify(self._heap)

    def _keep(self, client: Hashable, clock: float) -> None:
        self._clocks[client] = clock
        if len(self._clocks) > MAX_CLIENTS:
            latest = sorted(self._clocks.items(), key=lambda entry: entry[1])[MAX_CLIENTS // 2 :]
            self._clocks = dict(latest)
