"""A file records how its 8-bit numbers were chosen; what a stranger wrote there is not trusted."""

import json

import pytest

from prunus.bundle.eight_bits.record import EightBitRecord, Measured, longest_record, read_record


def test_a_record_is_read_as_it_was_written_with_four_decimals() -> None:
    record = EightBitRecord(calibration=64, accuracy={"a": Measured(100, 0.123456, 0.1, 7, 40)})
    written = json.loads(json.dumps(record.written()))
    assert written["accuracy"] == {"a": [100, 0.1235, 0.1, 7, 40]}
    assert read_record({"int8": written}) == EightBitRecord(
        calibration=64, accuracy={"a": Measured(100, 0.1235, 0.1, 7, 40)}
    )


def test_a_record_of_an_earlier_version_is_read() -> None:
    record = read_record({"int8": {"calibration": 64, "accuracy": {"a": [100, 0.5, 0.4]}}})
    assert record is not None
    assert record.accuracy["a"] == Measured(100, 0.5, 0.4, None, None)


def test_no_record_is_longer_than_the_one_that_is_planned() -> None:
    longest = len(json.dumps(longest_record(["a", "bb"])))
    for count, share in ((9999, 0.9999), (1, 1 / 3), (100, 1.0), (5, 0.0), (7, 1e-4), (7, 5e-5)):
        for others in ((count, count), (None, None)):
            row = Measured(count, share, share, *others)
            record = EightBitRecord(calibration=count, accuracy=dict.fromkeys(["a", "bb"], row))
            assert len(json.dumps(record.written())) <= longest


@pytest.mark.parametrize(
    "record",
    [
        *(None, 3, [], {}, {"calibration": -1, "accuracy": {}}, {"accuracy": {"a": [1, 2, 3]}}),
        *({"calibration": 1, "accuracy": {"a": row}} for row in ([1, 1.0], [1, 1.0, 1.0, -1], [1, 1.0, 1.0, 0, 0, 0])),
    ],
)
def test_what_is_no_record_is_ignored(record: object) -> None:
    assert read_record({"int8": record}) is None
    assert read_record({}) is None
