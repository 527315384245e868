"""Errors meant for the user: one line that says what is wrong, what was expected and what to do."""

import difflib
from collections.abc import Iterable

from prunus.names import shown

MOST_NAMES = 20  # keeps an error short where a folder holds thousands of names


class PrunusError(ValueError):
    """The base class of all errors that are meant for the user; one visible line, whatever the names in it hold."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shown(str(message)))


class UnknownNameError(PrunusError):
    """An unknown name; the message lists the known ones, the most similar first."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        near = difflib.get_close_matches(name, names, n=3)
        hint = f" did you mean {near[0]!r}?" if near else ""
        ordered = near + [other for other in names if other not in near]
        more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
        super().__init__(f"unknown {kind} {name!r};{hint} known: {', '.join(ordered[:MOST_NAMES]) or 'none'}{more}")


class RecipeError(PrunusError):
    """A recipe that is unreadable or contradictory."""


class DataError(PrunusError):
    """A problem with the folder, classes or images of a domain."""


class BackboneError(PrunusError):
    """A network or weights that cannot be loaded or adapted."""


class TrainingError(PrunusError):
    """A training run that cannot start, continue or finish."""


class TrainingInterrupted(TrainingError):  # noqa: N818  # not a failure: the user asked to stop
    """A training run that was stopped and saved; the message says how to continue."""


class BundleError(PrunusError):
    """A model file that is damaged, of another kind or of another version."""


class StorageError(PrunusError):
    """A file that could not be written; an existing file is unchanged."""


class MissingExtraError(PrunusError):
    """A package of an optional extra that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed; install it with: pip install 'prunus[{extra}]'"
        )


class BudgetWarning(UserWarning):
    """A written model is larger than its recipe or the dense network suggests."""
