"""Learning rates over a run, against closed formulas."""

import math

import pytest

from prunus.config import Training
from prunus.learning.rates import rate_factor


def _factors(training: Training, steps: int = 100) -> list[float]:
    return [rate_factor(training, training.epochs * i // steps, i / steps) for i in range(steps)]


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


def test_a_warm_up_longer_than_the_run_only_rises() -> None:
    factors = _factors(Training(epochs=2, warmup_epochs=5.0, schedule="cosine"))
    assert factors == pytest.approx([i / 100 for i in range(100)])


def test_drops_multiply() -> None:
    training = Training(epochs=10, lr_drops=(0.3, 0.6), lr_drop_factor=0.5)
    assert [rate_factor(training, epoch, epoch / 10) for epoch in (2, 3, 5, 6, 9)] == [1, 0.5, 0.5, 0.25, 0.25]
