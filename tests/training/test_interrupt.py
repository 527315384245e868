"""Signals during training, sent by this process to itself."""

import os
import signal

import pytest

from prunus.training.interrupt import stop_on_signal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_a_second_one_ends_the_program(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), stop_on_signal() as stop:
        assert not stop.is_set
        os.kill(os.getpid(), number)
        assert stop.is_set
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_one_of_several_processes_ignores_the_signal_that_torchrun_passes_on() -> None:
    with stop_on_signal(is_patient=True) as stop:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_set
