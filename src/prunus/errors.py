"""Errors meant for the user: one line that says what is wrong, what was expected and what to do."""

import difflib
import reprlib
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from prunus.names import shown

MOST_NAMES = 20  # keeps an error short where a folder holds thousands of names
FEW_NAMES = 32  # names that are compared for a suggestion; each takes some ten microseconds
LONGEST = 64  # letters of a name that are compared
MOST_PAIRS = 20_000  # pairs of letters that are compared; this takes a few milliseconds
ENDS = 16
WITHOUT_A_FILE = "choose another network, or measure the run itself with: prunus evaluate RUN"
CHECKOUT = {
    "demo": "./samples "
}  # extra -> the distribution of a checkout that it needs, which is in a folder of its own


class PrunusError(ValueError):
    """The base class of all errors that are meant for the user; one visible line, whatever the names in it hold."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shown(str(message)))


class UnknownNameError(PrunusError):
    """An unknown name; the message lists the known ones, the most similar first.

    Args:
        name: what was asked for, which need not be a name at all.
        listed: where the known names are listed; if a name is similar, this is said instead of many names.
        heading: what stands before the known names, such as "for example" if they are not all.
        near: names that may be meant, the likeliest first (default: those that are similar).
    """

    def __init__(
        self,
        kind: str,
        name: object,
        known: Iterable[str],
        listed: str = "",
        heading: str = "known",
        *,
        near: list[str] | None = None,
    ) -> None:
        names = list(known)
        written = repr(name) if isinstance(name, str) else reprlib.repr(name)
        if near is None:
            near = similar_names(name, names) if isinstance(name, str) else []
        if near and listed:
            super().__init__(f"unknown {kind} {written}; did you mean {near[0]!r}? {listed}")
            return
        hint = f" did you mean {near[0]!r}?" if near else ""
        ordered = near + [other for other in names if other not in near]
        more = f" and {len(ordered) - MOST_NAMES} more" if len(ordered) > MOST_NAMES else ""
        super().__init__(
            f"unknown {kind} {written};{hint} {heading}: {', '.join(ordered[:MOST_NAMES]) or 'none'}{more}"
        )


def check_known(kind: str, name: object, known: Collection[str]) -> None:
    """Refuse what is none of the known names, of whatever type it is."""
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError(kind, name, known)


def first_line(error: BaseException) -> str:
    """Return the first line of what an error of other code says, or the name of its class if it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def similar_names(name: str, known: Sequence[str]) -> list[str]:
    """Return up to three names that are similar to another, the most similar first.

    Among many names, only those with the most letters in common at their start and end are compared, because a client
    of a service may ask for unknown names in a loop.
    """
    likely = known if len(known) <= FEW_NAMES else sorted(known, key=lambda other: -_common_ends(name, other))
    longest = max(1, len(name[:LONGEST]), *(len(other[:LONGEST]) for other in likely[:FEW_NAMES]))
    compared = {other[:LONGEST]: other for other in likely[: min(FEW_NAMES, max(MOST_PAIRS // longest**2, 3))]}
    lower = {other.lower(): compared[other] for other in compared}
    near = difflib.get_close_matches(name[:LONGEST], compared, n=3)
    return [compared[each] for each in near] or [
        lower[each] for each in difflib.get_close_matches(name[:LONGEST].lower(), lower, n=3)
    ]


def _common_ends(name: str, other: str) -> int:
    """Return the number of letters that two names share at their start and at their end, up to some."""
    sides = ((name[:ENDS], other[:ENDS]), (name[::-1][:ENDS], other[::-1][:ENDS]))
    return sum(1 for side in sides for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*side, strict=False)))


class RecipeError(PrunusError):
    """A recipe that is unreadable or contradictory."""


class DataError(PrunusError):
    """A problem with the folder, classes or images of a domain."""


class BackboneError(PrunusError):
    """A network or weights that cannot be loaded or adapted."""


class NoFileError(BackboneError):
    """A network that no model file can hold.

    Args:
        reason: why, without advice.
        at_this_size: whether a file may be possible with images of another size.
    """

    def __init__(self, reason: str, advice: str = WITHOUT_A_FILE, at_this_size: bool = False) -> None:
        super().__init__(f"{reason}, so no model file can hold it; {advice}")
        self.reason = reason
        self.advice = advice
        self.at_this_size = at_this_size


class TrainingError(PrunusError):
    """A training run that cannot start, continue or finish."""


class DamagedFileError(TrainingError):
    """A file of a run that was damaged after it was written."""


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
            f"{purpose} needs {package}, which is not installed; install it with: {install_command(extra)}"
        )


def install_command(extra: str) -> str:
    """Return what installs an extra, for a package from a registry and for a checkout."""
    return f"pip install 'prunus[{extra}]' (in a checkout: pip install {CHECKOUT.get(extra, '')}'.[{extra}]')"


class AccuracyWarning(UserWarning):
    """8 bits lose more accuracy than they may, or a network does not compute the 8 bits of its file."""


class BudgetWarning(UserWarning):
    """A written model is larger than its recipe or the dense network suggests."""
