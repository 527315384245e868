"""The comparison of 8-bit files refuses arguments that it cannot measure anything with."""

import sys

import pytest

from benchmarks import int8_accuracy


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--draws", "0", "--draws must be at least 1, got 0"),
        ("--images", "0", "--images must be numbers from 1, such as 16,64, got '0'"),
        ("--images", "16,", "--images must be numbers from 1, such as 16,64, got '16,'"),
        ("--images", "16,-1", "--images must be numbers from 1, such as 16,64, got '16,-1'"),
    ],
)
def test_counts_below_one_are_refused_before_anything_is_measured(
    option: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["int8_accuracy", "no-such-run", option, value])
    with pytest.raises(SystemExit) as caught:
        int8_accuracy.main()
    assert caught.value.code == 2
    assert problem in capsys.readouterr().err
