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
from prunus.budgets.counting import used_kernels
from prunus.learning.feed import DomainData
from prunus.learning.learner import Learner
from prunus.measure.cost import CostReport
from prunus.run_folder import DomainEnding, DomainProgress, Ending, EpochReport
from prunus.training.reporting.findings import LayerUsage, find_problems, limit_of, over_budget

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
    net, recipe, method = learner.net, learner.recipe, learner.chosen.method
    packable = method.packable and not recipe.backbone.is_model_file  # which gains a domain, and is no file by itself
    costs = used_kernels(net, {domain.name: domain.preprocess for domain in data}, packable)
    domains = {}
    for domain in data:
        images = domain.validation or domain.train
        chance = chance_accuracy(images.labels, len(net.classes[domain.name]))
        held_out = len(domain.validation) if domain.validation else 0
        domains[domain.name] = DomainEnding(
            costs.usage(domain.name), chance, held_out, validation.get(domain.name), frozen.get(domain.name)
        )
    ending = Ending(step, domains, costs.union(), net.switches is not None, intersection=costs.intersection())
    over = over_budget(limit_of(recipe), costs)
    can_grow = method.has_budget and recipe.budget.can_grow
    return replace(ending, findings=find_problems(ending, _layer_usage(learner, costs), over, can_grow))


def as_it_ended(report: EpochReport, ending: Ending) -> EpochReport:
    """Return the last report of a run with the numbers of its end, which are counted as in the model file."""
    domains = {}
    for name, domain in report.domains.items():
        end = ending.domains[name]
        domains[name] = replace(domain, usage=end.usage, validation_accuracy=end.validation_accuracy)
    return replace(report, domains=domains, union=ending.union, intersection=ending.intersection, is_ending=True)


def chance_accuracy(labels: Integers, num_classes: int) -> float:
    """Return the larger accuracy of a random answer and of the most frequent class."""
    return max(1 / num_classes, float(np.bincount(labels).max() / len(labels)))


def _layer_usage(learner: Learner, costs: CostReport) -> LayerUsage:
    """Return the share of every layer that each domain uses: of its kernels in the file, or else of its switches."""
    switches = learner.net.switches
    if switches is None or not switches.zeroes_weights:
        return {}
    masks = switches.layer_masks()
    if {layer.name for layer in costs.layers} == set(masks):
        return {layer.name: list(costs.layer_usage(layer).values()) for layer in costs.layers}
    return {name: mask.flatten(1).double().mean(1).tolist() for name, mask in masks.items()}
