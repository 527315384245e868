"""Curves over the epochs of a training run, for the plots and the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prunus.names import shown
from prunus.run_folder import DomainProgress, EpochReport

ANY = "any domain"


@dataclass(frozen=True)
class Curve:
    """Values in percent over the epochs, which count from 1; None if an epoch has no value."""

    name: str
    epochs: list[int]
    values: list[float | None]


def accuracy_kind(epochs: Sequence[EpochReport]) -> str:
    """Return which accuracy the curves show: on validation images if there are any, else on training images."""
    progress = [domain for epoch in epochs for domain in epoch.domains.values()]
    return "validation" if any(domain.validation_accuracy is not None for domain in progress) else "training"


def accuracy_curves(epochs: Sequence[EpochReport]) -> list[Curve]:
    """Return every domain's accuracy."""
    if accuracy_kind(epochs) == "validation":
        return _by_domain(epochs, lambda progress: progress.validation_accuracy)
    return _by_domain(epochs, lambda progress: progress.train_accuracy)


def usage_curves(epochs: Sequence[EpochReport]) -> list[Curve]:
    """Return the share of the kernels that each domain uses."""
    return _by_domain(epochs, lambda progress: progress.usage)


def union_curve(epochs: Sequence[EpochReport]) -> Curve:
    """Return the share of the kernels that any domain uses."""
    return Curve(ANY, [epoch.epoch + 1 for epoch in epochs], [100 * epoch.union for epoch in epochs])


def _by_domain(epochs: Sequence[EpochReport], share: Callable[[DomainProgress], float | None]) -> list[Curve]:
    curves: dict[str, Curve] = {}
    for epoch in epochs:
        for name, progress in epoch.domains.items():
            curve = curves.setdefault(name, Curve(shown(name), [], []))
            value = share(progress)
            curve.epochs.append(epoch.epoch + 1)
            curve.values.append(None if value is None else 100 * value)
    return list(curves.values())
