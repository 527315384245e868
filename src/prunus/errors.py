"""What can go wrong because of something the user gave, each said in one line: what, got, allowed, do this."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMES = 20  # an error is one line, also where a folder holds thousands of names


class PrunusError(ValueError):
    """The parent of every error that is meant for the user."""


class UnknownNameError(PrunusError):
    """A name that is in none of our tables; the message lists the known ones, the nearest first."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        near = difflib.get_close_matches(name, names, n=3)
        hint = f" did you mean {near[0]!r}?" if near else ""
        ordered = near + [other for other in names if other not in near]
        more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
        super().__init__(f"unknown {kind} {name!r};{hint} known: {', '.join(ordered[:MOST_NAMES]) or 'none'}{more}")


class RecipeError(PrunusError):
    """A recipe that cannot be read or contradicts itself."""


class DataError(PrunusError):
    """A domain whose folder, classes or images are not as they must be."""


class BackboneError(PrunusError):
    """A network or its weights that cannot be had or cannot be adapted."""


class TrainingError(PrunusError):
    """A training that cannot start, go on or end well."""


class TrainingInterrupted(TrainingError):  # noqa: N818  # nothing failed: someone asked to stop
    """A training that was stopped and saved; the message says how to go on."""


class BundleError(PrunusError):
    """A model file that is damaged, foreign or of another version."""


class StorageError(PrunusError):
    """A file that could not be written; what was there before is still there."""


class MissingExtraError(PrunusError):
    """A package of an optional extra that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs {package}, which is not installed; install it with: pip install 'prunus[{extra}]'"
        )
