"""A value is dropped after the last operation that reads it, and the last value never."""

from prunus.integers.lifetimes import unused_after


def test_a_value_is_dropped_after_its_last_reader() -> None:
    assert unused_after([(0,), (1,), (1, 2)]) == [[0], [], [1, 2]]
    assert unused_after([(0,), (0,), (2,)]) == [[1], [0], [2]]  # nothing reads value 1
    assert unused_after([(0,)]) == [[0]]
