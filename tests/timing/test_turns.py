"""Engines are timed in turns."""

import time

from prunus.timing.turns import WARM_UP, take_turns


def test_every_run_takes_part_in_every_round_and_a_slow_one_takes_longer() -> None:
    calls: list[str] = []

    def slow() -> None:
        calls.append("slow")
        time.sleep(0.004)

    found = take_turns({"fast": lambda: calls.append("fast"), "slow": slow}, rounds=7)
    assert calls.count("fast") == calls.count("slow") == 2 * (WARM_UP + 7)  # each once before it is timed
    assert found["slow"].median_ms >= 4 > found["fast"].median_ms
    assert found["slow"].p95_ms >= found["slow"].median_ms


def test_the_order_changes_from_round_to_round() -> None:
    calls: list[int] = []
    take_turns({number: (lambda number=number: calls.append(number)) for number in range(4)}, rounds=10)  # type: ignore[misc]
    assert calls[::2] == calls[1::2]  # each once before it is timed
    rounds = [tuple(calls[first : first + 8 : 2]) for first in range(0, len(calls), 8)]
    assert len(set(rounds)) > 3
    assert all(sorted(each) == [0, 1, 2, 3] for each in rounds)
