"""Bodies that arrive: their rate, and which of them is given up for the others."""

from __future__ import annotations

import asyncio

import pytest

from prunus.serving.guarding.arrivals import (
    AT_ONCE,
    EVICTION_SECONDS,
    GRACE_SECONDS,
    SILENT_SECONDS,
    SWEEP_SECONDS,
    Arrival,
    Arrivals,
)
from prunus.serving.guarding.deadline import LATE_SECONDS
from prunus.serving.refusals import Refusal
from prunus.serving.settings import ServeSettings


class Clients:
    """Bodies by name, and the refusals that they got; the clock is set by hand."""

    def __init__(self, max_bytes: int = 100, min_rate: float = 10.0) -> None:
        self.arrivals = Arrivals(max_bytes, min_rate)
        self.refused: dict[str, Refusal] = {}
        self.bodies: dict[str, Arrival] = {}

    def begin(self, name: str, now: float = 0.0) -> None:
        loop = asyncio.new_event_loop()
        arrival = self.arrivals.begin(loop, lambda refusal: self.refused.update({name: refusal}))
        loop.close()
        arrival.restart(now)
        self.bodies[name] = arrival

    def send(self, name: str, count: int, now: float) -> None:
        self.arrivals.add(self.bodies[name], count, now)


def test_a_rate_counts_the_last_seconds_only() -> None:
    clients = Clients(max_bytes=10_000)
    clients.begin("a")
    clients.send("a", 1000, 0.5)
    body = clients.bodies["a"]
    assert body.rate(0.5) == pytest.approx(2000)
    assert body.rate(2.0) == pytest.approx(500)
    for second in range(1, 20):
        body.rate(second)  # as a sweep does
    assert body.rate(20.0) == 0


def test_the_bytes_of_the_first_moment_are_not_a_high_rate() -> None:
    clients = Clients()
    clients.begin("a")
    clients.send("a", 5, 0.0)
    assert clients.bodies["a"].rate(0.0) == pytest.approx(50)


def test_the_slowest_of_the_large_bodies_makes_room_and_never_the_one_that_sends() -> None:
    clients = Clients(max_bytes=100)
    for name in ("fast", "slow", "small", "new"):
        clients.begin(name)
    clients.send("slow", 45, 0.0)
    clients.send("small", 1, 0.0)
    for now in range(1, 7):
        clients.arrivals.sweep(0.0, 0.0)
        for body in clients.bodies.values():
            body.rate(now)
    clients.send("fast", 45, 6.5)
    clients.send("new", 20, 6.5)
    assert set(clients.refused) == {"slow"}
    assert clients.refused["slow"].status == 503
    assert (clients.arrivals.bytes, len(clients.arrivals), clients.arrivals.given_up) == (66, 3, 1)


def test_of_equally_slow_bodies_the_oldest_one_goes() -> None:
    clients = Clients(max_bytes=6400, min_rate=1000)
    for name, began in (("newer", 2.0), ("oldest", 1.0), ("newest", 3.0)):
        clients.begin(name, now=began)
        clients.send(name, 40, 3.0)
    clients.arrivals.resize(100, 3.0)
    assert set(clients.refused) == {"oldest"}


def test_an_old_body_that_comes_in_time_stays_while_a_younger_slow_one_can_go() -> None:
    clients = Clients(max_bytes=200, min_rate=10)
    clients.begin("old and fast", now=0.0)
    clients.begin("young and slow", now=0.5)
    clients.send("young and slow", 60, 0.5)
    clients.bodies["young and slow"].rate(3.0)
    clients.send("old and fast", 60, 5.5)
    clients.arrivals.resize(100, 5.6)
    assert set(clients.refused) == {"young and slow"}


def test_a_small_body_stays_where_its_end_would_free_little() -> None:
    clients = Clients(max_bytes=1000, min_rate=10)
    clients.begin("large", now=0.0)
    clients.begin("small", now=0.0)
    clients.send("small", 4, 0.0)
    clients.send("large", 920, 1.0)
    clients.arrivals.resize(900, 1.0)
    assert set(clients.refused) == {"large"}


def test_large_bodies_leave_room_for_small_ones() -> None:
    clients = Clients(max_bytes=6400)
    for name in ("first", "second", "small"):
        clients.begin(name)
    clients.send("first", 3000, 0.0)
    clients.send("second", 1800, 0.0)
    assert clients.refused == {}
    clients.send("second", 1, 0.0)  # three quarters are full, and the first has not paused yet
    assert set(clients.refused) == {"second"}
    assert clients.refused["second"].status == 503
    clients.send("small", 90, 0.0)
    assert "small" not in clients.refused


def test_a_large_body_that_has_paused_makes_room_for_one_that_comes_but_not_too_often() -> None:
    clients = Clients(max_bytes=6400)
    for name in ("old", "older", "new", "newer"):
        clients.begin(name)
    clients.bodies["older"].restart(-1.0)
    clients.send("old", 2300, 0.0)
    clients.send("older", 2300, 0.0)
    clients.arrivals.expect(clients.bodies["new"], 2300, SILENT_SECONDS)
    assert set(clients.refused) == {"older"}
    clients.send("new", 2300, SILENT_SECONDS)
    for expected in ({"newer"}, {"newer"}):
        clients.arrivals.expect(clients.bodies["newer"], 2300, 2 * SILENT_SECONDS)
        assert set(clients.refused) == {"older", *expected}
    clients.begin("last")
    clients.arrivals.expect(clients.bodies["last"], 2300, SILENT_SECONDS + EVICTION_SECONDS + 0.01)
    assert set(clients.refused) == {"older", "newer", "old"}


def test_after_a_while_without_any_a_second_of_evictions_may_come_at_once() -> None:
    clients = Clients(max_bytes=6400)
    for number in range(12):
        clients.begin(f"paused {number}")
        clients.send(f"paused {number}", 400, 0.0)
    for number in range(12):
        clients.begin(f"new {number}")
        clients.arrivals.expect(clients.bodies[f"new {number}"], 400, 100.0)
        clients.send(f"new {number}", 400, 100.0)
    evicted = [name for name in clients.refused if name.startswith("paused")]
    assert len(evicted) == 1 + 1.0 / EVICTION_SECONDS


def test_a_small_body_is_expected_whatever_the_large_ones_hold() -> None:
    clients = Clients(max_bytes=6400)
    clients.begin("large")
    clients.begin("small")
    clients.send("large", 4800, 0.0)
    clients.arrivals.expect(clients.bodies["small"], 100, 0.0)
    assert clients.refused == {}


def test_the_last_body_may_stay_whatever_the_others_hold() -> None:
    clients = Clients(max_bytes=100)
    clients.begin("a")
    clients.send("a", 90, 0.0)
    clients.arrivals.resize(10, 0.0)
    assert clients.refused == {}


def test_a_body_below_the_rate_is_given_up_after_the_grace_and_not_before() -> None:
    clients = Clients(min_rate=10)
    clients.begin("slow")
    clients.begin("fast")
    for tenth in range(int(10 * GRACE_SECONDS)):
        now = tenth / 10
        clients.send("fast", 2, now)
        clients.arrivals.sweep(now, now)
        assert clients.refused == {}
    clients.arrivals.sweep(GRACE_SECONDS, GRACE_SECONDS)
    assert set(clients.refused) == {"slow"}
    assert clients.refused["slow"].status == 408
    assert "at least 10 bytes per second" in clients.refused["slow"].message
    assert clients.refused["slow"].headers["Connection"] == "close"


def test_time_in_which_the_process_was_suspended_does_not_count() -> None:
    clients = Clients(min_rate=10)
    clients.begin("slow")
    clients.arrivals.sweep(1000.0, 1000.0 - LATE_SECONDS - 1)
    assert clients.refused == {}
    clients.arrivals.sweep(1000.0 + GRACE_SECONDS, 1000.0 + GRACE_SECONDS)
    assert set(clients.refused) == {"slow"}


def test_a_body_counts_until_its_end_and_ends_once() -> None:
    clients = Clients()
    clients.begin("a")
    clients.send("a", 30, 0.0)
    for _ in range(2):
        clients.arrivals.end(clients.bodies["a"])
        assert (clients.arrivals.bytes, len(clients.arrivals)) == (0, 0)
    clients.send("a", 30, 0.0)  # what comes after the end is not kept
    assert clients.arrivals.bytes == 0


def test_slow_bodies_are_looked_for_every_second_after_the_five_that_the_settings_name() -> None:
    assert (GRACE_SECONDS, SWEEP_SECONDS) == (5.0, 1.0)
    assert "after 5 seconds" in str(ServeSettings.model_fields["min_bytes_per_second"].description)


def test_slow_bodies_are_looked_for_while_there_are_any() -> None:
    async def wait() -> tuple[int, bool, bool]:
        arrivals = Arrivals(100, min_rate=10)
        refused: list[Refusal] = []
        arrival = arrivals.begin(asyncio.get_running_loop(), refused.append)
        arrival.restart(arrival.began - GRACE_SECONDS)
        await asyncio.sleep(SWEEP_SECONDS + 0.3)
        stopped = arrivals._timer is None
        arrivals.begin(asyncio.get_running_loop(), refused.append)
        return len(refused), stopped, arrivals._timer is not None

    assert asyncio.run(wait()) == (1, True, True)


def test_many_slow_bodies_are_given_up_a_few_at_a_time_and_the_oldest_first() -> None:
    clients = Clients()
    for number in range(2 * AT_ONCE + 1):
        clients.begin(str(number))
    for count, more in ((AT_ONCE, True), (2 * AT_ONCE, True), (2 * AT_ONCE + 1, False)):
        assert clients.arrivals.sweep(GRACE_SECONDS, GRACE_SECONDS) is more
        assert list(clients.refused) == [str(number) for number in range(count)]


def test_the_next_slow_bodies_are_given_up_soon() -> None:
    async def refused_after(seconds: float) -> int:
        arrivals = Arrivals(100, min_rate=10.0)
        refused: list[Refusal] = []
        loop = asyncio.get_running_loop()
        for _ in range(3 * AT_ONCE):
            arrivals.begin(loop, refused.append).began -= GRACE_SECONDS
        await asyncio.sleep(SWEEP_SECONDS + seconds)
        return len(refused)

    assert asyncio.run(refused_after(0.6)) == 3 * AT_ONCE
