"""A fair queue: whoever has used more waits, and nobody waits forever."""

from __future__ import annotations

from prunus.serving.fairness import MAX_CLIENTS, FairQueue


def _order(queue: FairQueue[str]) -> list[str]:
    return [queue.pop() for _ in range(len(queue))]


def test_clients_take_turns() -> None:
    queue: FairQueue[str] = FairQueue()
    for name in ("a1", "a2", "a3", "b1", "b2"):
        queue.push(name, name[0], 1.0)
    assert _order(queue) == ["a1", "b1", "a2", "b2", "a3"]


def test_the_cheapest_request_of_equal_clients_is_first() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("dear", "a", 2.0)
    queue.push("cheap", "b", 0.1)
    queue.push("fair", "c", 1.0)
    assert queue.first() == "cheap"
    assert _order(queue) == ["cheap", "fair", "dear"]


def test_a_dear_request_is_not_overtaken_forever() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("dear", "a", 1.0)
    order = []
    for number in range(30):
        queue.push("cheap", number, 0.1)  # another client each time
        order.append(queue.pop())
    assert order.index("dear") <= 10


def test_a_client_that_was_away_has_saved_no_turns() -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(10):
        queue.push("a", "a", 1.0)
        queue.pop()
    for name in ("b1", "b2", "a1", "b3"):
        queue.push(name, name[0], 1.0)
    assert _order(queue) == ["b1", "a1", "b2", "b3"]


def test_what_a_request_took_beyond_its_estimate_is_charged() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("a1", "a", 0.1)
    queue.pop()
    queue.charge("a", 5.0)
    queue.charge("b", -5.0)  # less than expected: nothing is paid back
    queue.push("a2", "a", 0.1)
    queue.push("b1", "b", 4.0)
    assert _order(queue) == ["b1", "a2"]


def test_a_request_that_is_no_longer_needed_is_removed() -> None:
    queue: FairQueue[str] = FairQueue()
    for name in ("a1", "b1", "c1"):
        queue.push(name, name, 1.0)
    queue.discard("b1")
    queue.discard("unknown")
    assert _order(queue) == ["a1", "c1"]


def test_clients_without_number_take_no_memory_without_end() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.charge("heavy", 100.0)
    for number in range(3 * MAX_CLIENTS):
        queue.push("x", number, 0.001)
        queue.pop()
    assert len(queue._clocks) <= MAX_CLIENTS
    queue.push("heavy", "heavy", 0.0)
    queue.push("light", "light", 50.0)
    assert _order(queue) == ["light", "heavy"]


def test_a_cheap_request_need_not_wait_for_a_round_of_expensive_ones_if_the_clock_is_shared() -> None:
    for shared, position in ((False, 7), (True, 0)):
        queue: FairQueue[str] = FairQueue(shared)
        for number in range(8):
            queue.push("dear", number, 16.0)
        queue.pop()
        queue.push("cheap", "other", 1.0)
        assert _order(queue).index("cheap") == position


def test_a_dear_request_is_not_overtaken_forever_either_if_the_clock_is_shared() -> None:
    queue: FairQueue[str] = FairQueue(shared=True)
    queue.push("dear", "a", 1.0)
    order = []
    for number in range(30):
        queue.push("cheap", number, 0.1)
        order.append(queue.pop())
    assert order.index("dear") <= 20  # an equal share: as much time for the others
