"""The speed of training counts the images of this process only, from the time at which it began."""

import time

import pytest
import torch

from prunus.learning.learner import Learner
from prunus.training.reporting.reports import Pace, Reporter
from tests.makers.tiny_training import tiny_net, tiny_recipe


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time, which a test may change."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_images_before_a_resume_do_not_count(clock: list[float]) -> None:
    pace = Pace(seen=30.0)
    clock[0] += 2.0
    assert pace.per_second(130.0) == 50.0


def test_every_epoch_has_its_own_speed(clock: list[float]) -> None:
    learner = Learner(tiny_net(), tiny_recipe())
    learner.tally_D3[:, 2] = torch.tensor([10.0, 0.0])  # restored from a checkpoint
    reporter = Reporter(learner)
    learner.tally_D3[:, 2] = torch.tensor([30.0, 20.0])
    clock[0] += 4.0
    assert reporter.read(0, 5, {}).images_per_second == 10.0
    learner.tally_D3[:, 2] = torch.tensor([6.0, 6.0])
    clock[0] += 2.0
    reporter.request(1, 6)
    within = reporter.arrived()
    assert within is not None
    assert within.images_per_second == 6.0
    clock[0] += 2.0
    assert reporter.read(1, 7, {}).images_per_second == 3.0
