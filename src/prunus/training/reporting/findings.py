"""What is wrong with a run, in words and with the remedy: pure functions from numbers to sentences.

One observer asks one of them during a run, while there is still time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from typing_extensions import override

from prunus.amounts import write_bytes
from prunus.config import Recipe, Training
from prunus.learning.rates import rate_factor
from prunus.measure.budget import TOGETHER, KernelShare, LimitUse, in_words
from prunus.measure.cost import CostReport
from prunus.methods.table import choose_method
from prunus.run_folder import DomainEnding, Ending, EpochReport
from prunus.training.observers import Observer

TOLERANCE = 0.005  # of an extrapolated usage
NOISE = 2.0  # standard deviations that chance explains
NEAR_CHANCE = 0.25  # of the way from chance to no errors; what is farther is never called chance
EPSILON = 1e-9  # of rounding

LayerUsage = Mapping[str, Sequence[float]]  # layer -> share of its kernels that every domain reads


def limit_of(recipe: Recipe) -> KernelShare | None:
    """Return what a recipe's method asks of the usage; None for methods without a budget, or with limits."""
    chosen = choose_method(recipe)
    share = recipe.budget.kernels
    is_asked = chosen.method.has_budget and not chosen.method.keeps_budget
    per = getattr(chosen.options, "budget_per", "network")
    return KernelShare.of(share, chosen.sharing, per) if is_asked and share is not None else None


def find_problems(
    ending: Ending, layers: LayerUsage, over: Sequence[str] = (), can_grow: bool = True
) -> tuple[str, ...]:
    """Return a sentence about everything that is wrong with a finished run.

    Args:
        over: sentences about the budget.
        can_grow: whether the recipe's method has a budget that a user can raise.
    """
    return (
        *switched_off(list(ending.domains), layers, can_grow),
        *inaccurate(ending.domains, can_grow),
        *over,
    )


def switched_off(domains: Sequence[str], layers: LayerUsage, can_grow: bool) -> list[str]:
    """Name what is switched off whole: the network, domains, or layers in all or in some domains.

    A kernel counts as off, too, if it is on but nothing reads it: a model file has no such kernels.
    """
    remedy = f"set {'a larger budget or ' if can_grow else ''}a smaller training.switch_lr"
    is_off = {name: [share == 0 for share in shares] for name, shares in layers.items()}
    empty = [domain for index, domain in enumerate(domains) if layers and all(off[index] for off in is_off.values())]
    if layers and len(empty) == len(domains):
        return [f"no domain reads any kernel, so the answers do not depend on the images; {remedy}"]
    everywhere = [name for name, off in is_off.items() if all(off)]
    lost = {
        domain: names
        for index, domain in enumerate(domains)
        if domain not in empty
        and (names := [name for name in layers if is_off[name][index] and name not in everywhere])
    }
    problems = []
    if empty:
        problems.append(f"no kernel is read in {_domains(empty)}; {remedy}")
    if everywhere:
        problems.append(f"{_layers(everywhere, len(layers))} no kernel that any domain reads; {remedy}")
    if lost:
        listed = {domain: _few(names) for domain, names in lost.items()}
        problems.append(f"whole layers have no kernel that is read in {_with_details(listed)}; {remedy}")
    return problems


def inaccurate(domains: Mapping[str, DomainEnding], can_grow: bool = True) -> list[str]:
    """Name the domains whose validation accuracy is that of chance, or clearly below that of frozen features."""
    known = {name: domain for name, domain in domains.items() if domain.validation_accuracy is not None}
    guessing = {
        name: f"{domain.validation_accuracy:.1%} where chance is {domain.chance:.1%}"
        for name, domain in known.items()
        if _is_chance(domain)
    }
    weaker = {
        name: f"{domain.validation_accuracy:.1%} against {domain.frozen_accuracy:.1%}"
        for name, domain in known.items()
        if name not in guessing and is_below_frozen(domain)
    }
    problems = []
    if guessing:
        problems.append(
            f"validation accuracy is no better than chance in {_with_details(guessing)}; train for more epochs, "
            "try another training.lr, and look for wrong labels with prunus check"
        )
    if weaker:
        problems.append(
            f"a linear classifier on the frozen backbone is more accurate in {_with_details(weaker)}; "
            + ("train for more epochs, try another training.lr, or set a larger budget" if can_grow else LEARN)
        )
    return problems


def _is_chance(domain: DomainEnding) -> bool:
    """Return whether guessing explains an accuracy; of very few images it would explain any."""
    assert domain.validation_accuracy is not None
    above = domain.validation_accuracy - domain.chance
    room = 1 - domain.chance
    noise = NOISE * math.sqrt(domain.chance * room / max(domain.validation_images, 1))
    return noise < room and above <= min(noise, NEAR_CHANCE * room)


def is_below_frozen(domain: DomainEnding) -> bool:
    """Return whether an accuracy is below that of frozen features by more than noise."""
    accuracy, frozen = domain.validation_accuracy, domain.frozen_accuracy
    if accuracy is None or frozen is None:
        return False
    variance = (accuracy * (1 - accuracy) + frozen * (1 - frozen)) / max(domain.validation_images, 1)
    return frozen - accuracy > max(NOISE * math.sqrt(variance), EPSILON)


LEARN = "train for more epochs, or try another training.lr"
REACH = 'train for more epochs, set a larger training.switch_lr or training.dual_rate, or use method = "exact"'


def over_budget(limit: KernelShare | None, costs: CostReport) -> list[str]:
    """Name what uses more kernels than the budget allows."""
    over = [line for line in limit.limits(costs) if not line.kept] if limit else []
    if limit is None or not over:
        return []
    if limit.per != "network":
        return [f"the run is over its budget ({in_words(over)}); {REACH}"]
    usages = {line.domain or TOGETHER: line.used / costs.num_kernels() for line in over}
    digits = _digits(list(usages.values()), limit.share)
    listed = ", ".join(f"{name} {usage:.{digits}%}" for name, usage in usages.items())
    return [f"the run is over its budget of {limit.share:.{digits}%} of the kernels ({listed}); {REACH}"]


def over_limits(limits: Iterable[LimitUse], remedy: str) -> list[str]:
    """Name the limits that a model exceeds."""
    over = [limit for limit in limits if not limit.kept]
    return [f"the model is over its budget ({in_words(over)}); {remedy}"] if over else []


def falls_short(
    points: Sequence[tuple[int, float]], total_steps: int, training: Training, limit: KernelShare
) -> str | None:
    """Say so if the usage will not reach the budget in time.

    The decline per step since half of the steps continues, in proportion to the learning rates that are left.

    Args:
        points: step and usage, of all domains together or of the domain that uses most, from the beginning.
    """
    step, usage = points[-1]
    before, usage_before = min(points[:-1], key=lambda point: abs(point[0] - step / 2))
    positions = [training.num_epochs * number / total_steps for number in range(before, total_steps)]
    factors = [rate_factor(training, position) for position in positions]
    done = sum(factors[: step - before])
    left = sum(factors[step - before :])
    expected = usage - (usage_before - usage) * left / done if done else usage
    if min(usage, expected) <= limit.share + TOLERANCE:
        return None
    who = TOGETHER if limit.of_union else "the domain that uses most"
    return (
        f"the schedule is too short for the budget: {who} will still use about {expected:.0%} of the kernels at its "
        f"end, where {limit.share:.0%} are allowed; {REACH}"
    )


class ScheduleWatch(Observer):
    """Says once, after a third of the steps, that a run will not reach its budget in time."""

    def __init__(self, training: Training, limit: KernelShare, note: Callable[[str], None]) -> None:
        self._training = training
        self._limit = limit
        self._note = note
        self._points: list[tuple[int, float]] = []
        self._total_steps = 0
        self._is_due = True

    @override
    def started(self, step: int, total_steps: int) -> None:
        self._total_steps = total_steps
        self._points = [] if step else [(0, 1.0)]

    @override
    def progressed(self, report: EpochReport) -> None:
        usages = [domain.usage for domain in report.domains.values()]
        self._points.append((report.step, report.union if self._limit.of_union else max(usages)))
        if self._is_due and len(self._points) > 1 and report.step < self._total_steps <= 3 * report.step:
            self._is_due = False
            if sentence := falls_short(self._points, self._total_steps, self._training, self._limit):
                self._note(sentence)

    @override
    def epoch_ended(self, report: EpochReport) -> None:
        self.progressed(report)


def larger_than_dense(file_bytes: int, dense_bytes: int, remedies: Sequence[str]) -> list[str]:
    """Say so if a model file is larger than the network it was pruned from, and what can be done about it."""
    if file_bytes <= dense_bytes:
        return []
    *others, last = remedies
    return [
        f"the file is larger than the dense network ({write_bytes(file_bytes)} against {write_bytes(dense_bytes)}): "
        "too few kernels are removed to make up for the masks, norms and classifiers of the domains; "
        + (f"{', '.join(others)}, or {last}" if others else last)
    ]


def _digits(values: Sequence[float], limit: float) -> int:
    """Return how many digits tell values in percent from a limit."""
    return next((n for n in range(1, 6) if all(f"{value:.{n}%}" != f"{limit:.{n}%}" for value in values)), 6)


def _domains(names: Sequence[str]) -> str:
    return f"domain{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _with_details(details: Mapping[str, str]) -> str:
    return _domains([f"{name} ({text})" for name, text in details.items()])


def _few(layers: Sequence[str]) -> str:
    return layers[0] if len(layers) == 1 else f"{len(layers)} layers, the first is {layers[0]}"


def _layers(names: Sequence[str], total: int) -> str:
    if len(names) == 1:
        return f"layer {names[0]} has"
    return f"{len(names)} of {total} layers, the first of them {names[0]}, have"
