"""Curves over the epochs: which accuracy they show, and epochs without a domain or a value."""

from prunus.report.training_curves import Curve, accuracy_curves, accuracy_kind, union_curve, usage_curves
from prunus.run_folder import DomainProgress, EpochReport


def _progress(validation: float | None) -> DomainProgress:
    return DomainProgress(loss=1.0, train_accuracy=0.5, validation_accuracy=validation, usage=0.75)


FIRST = EpochReport(0, 10, {"birds": _progress(None)}, union=1.0)
SECOND = EpochReport(1, 20, {"birds": _progress(0.25), "flowers": _progress(None)}, union=0.5)


def test_without_validation_images_curves_show_the_training_accuracy() -> None:
    assert accuracy_kind([FIRST]) == "training"
    assert accuracy_curves([FIRST]) == [Curve("birds", [1], [50.0])]


def test_with_validation_images_curves_show_the_validation_accuracy_where_it_was_measured() -> None:
    assert accuracy_kind([FIRST, SECOND]) == "validation"
    assert accuracy_curves([FIRST, SECOND]) == [Curve("birds", [1, 2], [None, 25.0]), Curve("flowers", [2], [None])]


def test_usage_covers_the_epochs_in_which_a_domain_was_trained() -> None:
    assert usage_curves([FIRST, SECOND]) == [Curve("birds", [1, 2], [75.0, 75.0]), Curve("flowers", [2], [75.0])]
    assert union_curve([FIRST, SECOND]) == Curve("any domain", [1, 2], [100.0, 50.0])
