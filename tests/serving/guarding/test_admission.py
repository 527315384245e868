"""Limits on waiting requests and on their bytes, counted up and down again, and who loses a place to whom."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from prunus.serving.guarding.admission import Admission, Load
from prunus.serving.refusals import Refusal


class Queue:
    """Requests that took a slot, by name, and the names of those that lost it again, with the reasons."""

    def __init__(self, max_requests: int, max_bytes: int = 1000) -> None:
        self.admission = Admission(max_requests, max_bytes)
        self.loads: dict[str, Load] = {}
        self.dropped: dict[str, Refusal] = {}
        self._stack = ExitStack()

    def enter(self, name: str, seconds: float, address: str = "here", size: int = 0) -> None:
        load = self._stack.enter_context(self.admission.load(address))
        load.expect(seconds)
        load.drop = lambda refusal: self.dropped.__setitem__(name, refusal)
        self._stack.enter_context(self.admission.slot(load))
        self.loads[name] = load
        load.add(size)

    def leave(self) -> None:
        self._stack.close()


def test_a_request_beyond_the_limit_is_refused_until_a_slot_is_free() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with admission.load() as first, admission.load() as second:
        with admission.slot(first):
            with pytest.raises(Refusal, match="1 requests are waiting") as refused:
                admission.check(second)
            assert refused.value.status == 503
        admission.check(second)
        assert admission.requests == 0


def test_a_light_request_takes_the_place_of_the_heaviest_and_of_equal_ones_of_the_newest() -> None:
    queue = Queue(max_requests=4)
    for name, seconds in (("old", 0.3), ("new", 0.3), ("photo", 0.2), ("small", 0.001)):
        queue.enter(name, seconds)
    queue.enter("light", 0.001)
    assert list(queue.dropped) == ["new"]
    assert queue.dropped["new"].status == 503
    assert queue.dropped["new"].headers["Retry-After"] == "1"
    queue.enter("another", 0.001)
    assert list(queue.dropped) == ["new", "old"]
    assert queue.admission.requests == 4
    queue.leave()
    assert queue.admission.requests == 0


def test_requests_that_are_about_as_heavy_do_not_take_each_others_places() -> None:
    queue = Queue(max_requests=2)
    queue.enter("a", 0.1)
    queue.enter("b", 0.1)
    for seconds in (0.051, 0.1, 5.0):
        with pytest.raises(Refusal, match="2 requests are waiting"):
            queue.enter("c", seconds)
    assert queue.dropped == {}
    queue.enter("half", 0.05)
    assert list(queue.dropped) == ["b"]


def test_a_request_that_turns_out_to_be_heavy_loses_its_place_and_one_that_is_computed_keeps_it() -> None:
    queue = Queue(max_requests=2)
    queue.enter("hidden", 0.001)
    queue.enter("computed", 0.001)
    with pytest.raises(Refusal):
        queue.enter("early", 0.001)
    queue.loads["computed"].expect(9.0)
    queue.loads["computed"].keep()
    queue.loads["hidden"].expect(0.2)  # its headers were read
    queue.enter("light", 0.001)
    assert list(queue.dropped) == ["hidden"]
    with pytest.raises(Refusal):
        queue.enter("next", 0.001)


def test_of_several_addresses_the_one_with_most_requests_loses_a_place() -> None:
    queue = Queue(max_requests=5)
    queue.enter("alone", 0.003, address="there")
    for number in range(4):
        queue.enter(f"crowd {number}", 0.001)
    queue.enter("newcomer", 0.001, address="elsewhere")
    assert list(queue.dropped) == ["crowd 3"]
    with pytest.raises(Refusal):
        queue.enter("one more", 0.001)


def test_a_small_request_takes_the_memory_of_the_largest_ones_until_it_fits() -> None:
    queue = Queue(max_requests=9, max_bytes=100)
    queue.enter("large", 0.001, size=60)
    queue.enter("medium", 0.001, size=30)
    queue.enter("small", 0.5, size=10)
    queue.enter("newcomer", 0.001, size=15)
    assert list(queue.dropped) == ["large"]
    assert queue.dropped["large"].status == 503
    assert queue.admission.bytes == 55
    with pytest.raises(Refusal, match="requests already hold 55 bytes"):
        queue.enter("too large", 0.001, size=46)
    queue.leave()
    assert queue.admission.bytes == 0


def test_a_request_never_drops_itself_for_its_own_bytes() -> None:
    queue = Queue(max_requests=9, max_bytes=100)
    queue.enter("only", 0.001, size=90)
    with pytest.raises(Refusal, match="requests already hold 90 bytes"):
        queue.loads["only"].add(20)
    assert queue.dropped == {}


def test_bytes_beyond_the_limit_are_refused_and_released_with_their_request() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with admission.load() as first, admission.load() as second:
        first.add(6)
        second.add(4)
        with pytest.raises(Refusal, match="requests already hold 10 bytes"):
            second.add(1)
        assert (admission.bytes, first.bytes, second.bytes) == (10, 6, 4)
    assert admission.bytes == 0


def test_a_request_is_arriving_until_it_says_otherwise_and_counts_once() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with admission.load() as first, admission.load():
        assert admission.arriving == 2
        first.arrived()
        first.arrived()
        assert admission.arriving == 1
    assert admission.arriving == 0


def test_a_request_that_fails_while_arriving_is_no_longer_expected() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with pytest.raises(ConnectionError), admission.load() as load:
        load.add(3)
        raise ConnectionError
    assert (admission.arriving, admission.bytes) == (0, 0)
