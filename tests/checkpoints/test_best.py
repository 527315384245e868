"""Which epoch is the best one."""

import pytest

from prunus.checkpoints.best import Best, better
from prunus.run_folder import DomainProgress, EpochReport


def _report(epoch: int, accuracies: list[float | None], usage: float = 0.2) -> EpochReport:
    domains = {str(i): DomainProgress(1.0, 0.5, accuracy, usage) for i, accuracy in enumerate(accuracies)}
    return EpochReport(epoch, 10 * epoch, domains, union=0.3)


def test_the_mean_of_the_domains_decides() -> None:
    best = better(None, _report(0, [0.5, 0.7]), budget=0.25)
    assert best is not None
    assert best.epoch == 0
    assert best.accuracy == pytest.approx(0.6)
    assert better(best, _report(1, [0.9, 0.2]), budget=0.25) is None
    assert better(best, _report(1, [0.6, 0.6]), budget=0.25) is None  # the earlier one of two equals stays
    later = better(best, _report(2, [0.9, 0.4]), budget=0.25)
    assert later is not None
    assert later.epoch == 2


@pytest.mark.parametrize(("usage", "budget", "counts"), [(0.6, 0.5, False), (0.504, 0.5, True), (0.6, None, True)])
def test_an_epoch_above_the_budget_does_not_count(usage: float, budget: float | None, counts: bool) -> None:
    assert (better(None, _report(0, [0.5], usage), budget) is not None) == counts


def test_without_validation_images_no_epoch_is_the_best() -> None:
    assert better(None, _report(0, [None, None]), budget=0.25) is None
    assert better(Best(epoch=0, accuracy=0.1), _report(1, []), budget=None) is None
