"""Bodies that are still arriving: how fast each one comes, how many bytes they hold, and which is given up first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from prunus.serving.guarding.deadline import LATE_SECONDS
from prunus.serving.refusals import Refusal, overloaded

WINDOW_SECONDS = 2.5  # a rate counts the bytes of the last one or two windows
SHORTEST_SECONDS = 0.1  # the bytes of the first moment do not count as a high rate
GRACE_SECONDS = 2 * WINDOW_SECONDS  # a body is never too slow before
SWEEP_SECONDS = 1.0
LARGE_SHARE = 1 / 64  # of all bytes: a body that holds more is large
LARGE_POOL = 0.75  # of all bytes: what large bodies may hold together, so that there is always room for others
SILENT_SECONDS = 0.05  # a client that sends as fast as it can does not pause for so long
EVICTION_SECONDS = 0.25  # between two large bodies that are given up for another: clients may send theirs again
AT_ONCE = 8  # bodies given up together, each of which takes about a millisecond; other requests come in between
SOON_SECONDS = 0.05  # until the next ones are given up
GiveUp = Callable[[Refusal], None]


class Arrival:
    """The body of one request while it arrives.

    Args:
        give_up: answers the request with a refusal and closes its connection.
    """

    def __init__(self, now: float, give_up: GiveUp) -> None:
        self.bytes = 0
        self.give_up = give_up
        self.heard_at = now
        self.restart(now)

    def restart(self, now: float) -> None:
        """Forget the past, in which the client may not have been able to send."""
        self.began = now
        self._before = self._mark = (now, self.bytes)

    def rate(self, now: float) -> float:
        """Return the bytes per second of the last few seconds."""
        if now - self._mark[0] >= WINDOW_SECONDS:
            self._before, self._mark = self._mark, (now, self.bytes)
        since, counted = self._before
        return (self.bytes - counted) / max(now - since, SHORTEST_SECONDS)


class Arrivals:
    """All bodies that are arriving; the slowest are given up when they need more bytes than there are.

    Args:
        max_bytes: the bytes that they may hold together; the complete requests leave more or less of them.
        min_rate: bytes per second; a slower body is given up after a few seconds.
    """

    def __init__(self, max_bytes: int, min_rate: float = 0.0) -> None:
        self.bytes = 0
        self.given_up = 0
        self._max_bytes = max_bytes
        self._min_rate = min_rate
        self._all: dict[Arrival, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next_eviction = 0.0

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, loop: asyncio.AbstractEventLoop, give_up: GiveUp) -> Arrival:
        """Count a new body."""
        arrival = Arrival(loop.time(), give_up)
        self._all[arrival] = None
        if self._timer is None:
            self._start_timer(loop)
        return arrival

    def add(self, arrival: Arrival, count: int, now: float) -> None:
        """Count bytes of a body; if they are too many, give up the slowest of the other bodies."""
        if arrival in self._all:
            arrival.bytes += count
            arrival.heard_at = now
            self.bytes += count
            if self._is_large(arrival.bytes):
                self._fit_large(now, arrival, 0)
            self._fit(now, arrival)

    def expect(self, arrival: Arrival, declared: int, now: float) -> None:
        """Make room for a body of this size, or refuse it before its client has sent it."""
        if self._is_large(declared):
            self._fit_large(now, arrival, declared)

    def end(self, arrival: Arrival) -> None:
        """Forget a body that is complete or will never be."""
        if arrival in self._all:
            del self._all[arrival]
            self.bytes -= arrival.bytes

    def resize(self, max_bytes: int, now: float) -> None:
        """Change the bytes that all bodies may hold together."""
        self._max_bytes = max_bytes
        self._fit(now, None)

    def useful_at(self, arrival: Arrival, now: float) -> tuple[float, float]:
        """Return when a body was last of use, and its rate: the lowest is given up first."""
        rate = arrival.rate(now)
        return (now if rate >= self._min_rate else arrival.began), rate

    def give_up(self, arrival: Arrival, refusal: Refusal) -> None:
        """Refuse the request of a body and free its bytes."""
        self.end(arrival)
        self.given_up += 1
        arrival.give_up(refusal)

    def sweep(self, now: float, due: float) -> bool:
        """Give up bodies that arrive too slowly, the oldest first, and return whether there are more of them."""
        if now > due + LATE_SECONDS:  # the whole process was suspended, so no bytes could be read
            for arrival in self._all:
                arrival.restart(now)
        slow = [each for each in self._all if each.rate(now) < self._min_rate and now - each.began >= GRACE_SECONDS]
        for arrival in slow[:AT_ONCE]:
            self.give_up(arrival, too_slow(self._min_rate))
        return len(slow) > AT_ONCE

    def _is_large(self, count: int) -> bool:
        return count > self._max_bytes * LARGE_SHARE

    def _fit_large(self, now: float, keep: Arrival, more: int) -> None:
        """Give up the slowest of the large bodies that have paused, or this one if there is none."""
        while keep in self._all:
            others = [each for each in self._all if each is not keep and self._is_large(each.bytes)]
            total = sum(each.bytes for each in others) + keep.bytes + more
            if not others or total <= self._max_bytes * LARGE_POOL:
                break
            silent = [each for each in others if now - each.heard_at >= SILENT_SECONDS]
            if silent and now >= self._next_eviction:
                self._next_eviction = max(self._next_eviction, now - 1.0) + EVICTION_SECONDS
                self.give_up(min(silent, key=lambda each: self.useful_at(each, now)), no_memory())
            else:
                self.give_up(keep, no_memory())

    def _fit(self, now: float, keep: Arrival | None) -> None:
        while self.bytes > self._max_bytes:
            holding = [each for each in self._all if each.bytes > 0]
            if len(holding) < 2:
                break  # the last one may stay: it is at most one request of the largest size
            others = [each for each in holding if each is not keep]
            mean = sum(each.bytes for each in others) / len(others)
            large = [each for each in others if each.bytes >= mean]  # small ones would free too little
            slowest = min(large, key=lambda each: self.useful_at(each, now))
            self.give_up(slowest, no_memory())

    def _start_timer(self, loop: asyncio.AbstractEventLoop, seconds: float = SWEEP_SECONDS) -> None:
        self._timer = loop.call_later(seconds, self._sweep_again, loop, loop.time() + seconds)

    def _sweep_again(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._timer = None
        more = self.sweep(loop.time(), due)
        if self._all:
            self._start_timer(loop, SOON_SECONDS if more else SWEEP_SECONDS)


def no_memory() -> Refusal:
    """Return the refusal of a body whose bytes are needed for others."""
    return overloaded("its memory is full of requests that are still arriving, and this one made room for others", True)


def too_slow(min_rate: float) -> Refusal:
    """Return the refusal of a body that arrives too slowly."""
    return Refusal(
        HTTPStatus.REQUEST_TIMEOUT,
        f"the request arrives too slowly; at least {min_rate:,.0f} bytes per second are expected",
        hang_up=True,
    )
