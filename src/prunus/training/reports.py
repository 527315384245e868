"""Read the progress of a learner without making a GPU wait for it.

Legend: D = domains, K = kernels.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Integers
from prunus.learning.feed import DomainData
from prunus.learning.learner import Learner
from prunus.methods.table import choose_method
from prunus.run_folder import DomainEnding, DomainProgress, Ending, EpochReport
from prunus.training.findings import LayerUsage, find_problems, limit_of

NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class _Pending:
    """Numbers on their way from the device; on a CPU they have arrived at once."""

    epoch: int
    step: int
    numbers: Tensor
    copied: torch.cuda.Event | None

    def has_arrived(self) -> bool:
        return self.copied is None or bool(self.copied.query())  # type: ignore[no-untyped-call]


class Pace:
    """Training images per second since an epoch began, or since the run was resumed within it."""

    def __init__(self, seen: float = 0.0) -> None:
        self._seen = seen  # before the clock started
        self._began = time.monotonic()

    def per_second(self, seen: float) -> float:
        """Return the speed after so many images of the epoch."""
        return round((seen - self._seen) / max(time.monotonic() - self._began, 1e-9), 1)


class Reporter:
    """Turns the state of a learner into reports."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._pace = Pace(float(learner.tally_D3[:, 2].sum()))
        self._pending: _Pending | None = None

    def request(self, epoch: int, step: int) -> None:
        """Start to read the state after a step, unless an earlier request is still on its way.

        Several processes ask at the same steps: each reading sums what all of them have counted.
        """
        if self._pending is None or self._learner.processes.world > 1:
            self._pending = self._send(epoch, step)

    def arrived(self) -> EpochReport | None:
        """Return the report that was requested as soon as it has arrived."""
        pending = self._pending
        if pending is None or not pending.has_arrived():
            return None
        self._pending = None
        return _report(self._learner, pending, {}, self._pace)

    def read(self, epoch: int, step: int, validation: Mapping[str, float]) -> EpochReport:
        """Wait for the state after the last step of an epoch; `validation` holds accuracies by domain."""
        self._pending = None
        pending = self._send(epoch, step)
        if pending.copied:
            pending.copied.synchronize()
        report = _report(self._learner, pending, validation, self._pace)
        self._pace = Pace()
        return report

    def _send(self, epoch: int, step: int) -> _Pending:
        numbers = _numbers(self._learner)
        if not numbers.is_cuda:
            return _Pending(epoch, step, numbers, None)
        on_host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
        on_host.copy_(numbers, non_blocking=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        return _Pending(epoch, step, on_host, copied)


@torch.no_grad()
def _numbers(learner: Learner) -> Tensor:
    """Return everything a report needs as one vector on the device."""
    switches = learner.net.switches
    count = len(learner.net.domains)
    mask_DK = switches.kernel_masks() if switches else torch.ones(count, 1, device=learner.net.device).bool()
    used_D1 = mask_DK.double().mean(1)[:, None]
    constraints = learner.constraints
    columns_D5 = torch.cat([learner.whole_tally(), used_D1, constraints.budget_multiplier_D.double()[:, None]], 1)
    shares = [mask_DK.any(0).double().mean(), mask_DK.all(0).double().mean(), constraints.sharing_multiplier.double()]
    return torch.cat([columns_D5.flatten(), torch.stack(shares)])


def _report(learner: Learner, pending: _Pending, validation: Mapping[str, float], pace: Pace) -> EpochReport:
    *columns, union, intersection, sharing_multiplier = pending.numbers.tolist()
    progress: dict[str, DomainProgress] = {}
    rows = np.reshape(columns, (-1, 5)).tolist()
    for name, row in zip(learner.net.domains, rows, strict=True):
        loss, correct, seen, usage, multiplier = row
        if seen:  # the strategy may train domains one after another
            progress[name] = DomainProgress(loss / seen, correct / seen, validation.get(name), usage, multiplier)
    report = EpochReport(pending.epoch, pending.step, progress, union, intersection, sharing_multiplier)
    speed = pace.per_second(sum(row[2] for row in rows))
    return replace(report, images_per_second=speed, has_switches=learner.net.switches is not None)


@torch.no_grad()
def describe_ending(
    learner: Learner,
    data: Sequence[DomainData],
    step: int,
    validation: Mapping[str, float],
    frozen: Mapping[str, float] = NONE,
) -> Ending:
    """Describe the network at the end of a run.

    Args:
        validation: accuracies by domain.
        frozen: those of frozen features.
    """
    switches = learner.net.switches
    mask_DK = switches.kernel_masks() if switches else torch.ones(len(data), 1, dtype=torch.bool)
    domains = {}
    for domain, usage in zip(data, mask_DK.double().mean(1).tolist(), strict=True):
        images = domain.validation or domain.train
        chance = chance_accuracy(images.labels, len(learner.net.classes[domain.name]))
        held_out = len(domain.validation) if domain.validation else 0
        domains[domain.name] = DomainEnding(
            usage, chance, held_out, validation.get(domain.name), frozen.get(domain.name)
        )
    ending = Ending(step, domains, mask_DK.any(0).double().mean().item(), switches is not None)
    return replace(ending, findings=_problems(ending, learner))


def chance_accuracy(labels: Integers, num_classes: int) -> float:
    """Return the larger accuracy of a random answer and of the most frequent class."""
    return max(1 / num_classes, float(np.bincount(labels).max() / len(labels)))


def _layer_usage(learner: Learner) -> LayerUsage:
    switches = learner.net.switches
    if switches is None or not switches.zeroes_weights:
        return {}
    return {name: mask.flatten(1).double().mean(1).tolist() for name, mask in switches.layer_masks().items()}


def _problems(ending: Ending, learner: Learner) -> tuple[str, ...]:
    has_budget = choose_method(learner.recipe).method.has_budget
    return find_problems(ending, _layer_usage(learner), limit_of(learner.recipe), has_budget)
