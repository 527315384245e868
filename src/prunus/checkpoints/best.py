"""Decide which epoch is the best one and when training no longer improves."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from prunus.run_folder import EpochReport

TOLERANCE = 0.005  # usage moves around the budget by less than this


class Best(BaseModel):
    """The best epoch so far and its mean accuracy on the validation images.

    Args:
        accuracy: at the end of that epoch, to be compared with those of other epochs.
        final_accuracy: after its norms were estimated again; None until the run has ended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int
    accuracy: float
    final_accuracy: float | None = None


def better(best: Best | None, report: EpochReport, budget: float | None) -> Best | None:
    """Return the epoch of a report if it is within the budget and better than the best one so far, else None."""
    accuracies = [domain.validation_accuracy for domain in report.domains.values()]
    known = [accuracy for accuracy in accuracies if accuracy is not None]
    within = budget is None or all(domain.usage <= budget + TOLERANCE for domain in report.domains.values())
    if not known or not within:
        return None
    mean = sum(known) / len(known)
    return Best(epoch=report.epoch, accuracy=mean) if best is None or mean > best.accuracy else None
