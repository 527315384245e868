"""Learning rates over a run, against closed formulas."""

import math

import pytest

from prunus.config import Training
from prunus.data.schedule import schedule
from prunus.learning.rates import rate_factor, rounding_start


def _factors(training: Training, steps: int = 100) -> list[float]:
    return [rate_factor(training, training.num_epochs * i / steps) for i in range(steps)]


def test_a_cosine_falls_from_one_to_zero() -> None:
    factors = _factors(Training(epochs=10, schedule="cosine"))
    assert factors[0] == 1
    assert factors[50] == pytest.approx(0.5)
    assert factors[99] == pytest.approx((1 - math.cos(math.pi / 100)) / 2)
    assert factors == sorted(factors, reverse=True)


@pytest.mark.parametrize("schedule", ["step", "cosine", "constant"])
def test_a_warm_up_rises_linearly_and_the_schedule_follows(schedule: str) -> None:
    training = Training.model_validate({"epochs": 10, "warmup_epochs": 2.0, "schedule": schedule, "lr_drops": [0.5]})
    factors = _factors(training)
    assert factors[:20] == pytest.approx([i / 20 for i in range(20)])
    assert factors[20] == 1
    last = {"step": 0.1, "constant": 1.0, "cosine": (1 - math.cos(math.pi / 80)) / 2}
    assert factors[-1] == pytest.approx(last[schedule])


def test_a_warm_up_as_long_as_the_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"warmup_epochs must be less than epochs \(2\), got 2.0"):
        Training(epochs=2, warmup_epochs=2.0)


def test_with_a_constant_rate_the_factors_do_not_depend_on_the_length_of_the_run() -> None:
    for warmup in (0.3, 0.7, 1.5):
        short, long = (
            [
                rate_factor(Training(epochs=epochs, warmup_epochs=warmup, schedule="constant"), step.position)
                for step in schedule("round_robin", [50, 37], 8, epochs, 0)
            ]
            for epochs in (2, 5)
        )
        assert long[: len(short)] == short  # bit for bit


def test_drops_multiply() -> None:
    training = Training(epochs=10, lr_drops=(0.3, 0.6), lr_drop_factor=0.5, schedule="step")
    assert [rate_factor(training, epoch) for epoch in (2, 3.5, 5, 6, 9.9)] == [1, 0.5, 0.5, 0.25, 0.25]


@pytest.mark.parametrize(
    ("epochs", "until", "start"),
    [(20, 0.5, 16), (4, 0.5, 3), (1, 0.5, 0.5), (1, 0.0, 0), (10, 0.9, 9), (20, 0.0, 16)],
)
def test_rounding_takes_the_last_fifth_but_an_epoch_at_least_and_waits_for_the_pool(
    epochs: int, until: float, start: float
) -> None:
    assert rounding_start(Training(epochs=epochs), until) == pytest.approx(start)
