"""Whether the progress of training is shown, and how: for the public functions and for notebooks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from prunus.progress.training import TrainingProgress
from prunus.progress.trials import TrialsProgress
from prunus.terminal import plain_console
from prunus.training.observers import Observer, Watch


@dataclass(frozen=True)
class Shown:
    """The observers of several training runs, and where messages to the user go."""

    watch: Watch
    note: Callable[[str], None]


def with_progress(observers: Sequence[Observer] | None, progress: bool | None, title: str) -> Sequence[Observer]:
    """Return the observers of one training run, with a display unless the caller has turned it off.

    Args:
        observers: those of the caller; None if there are none.
        progress: whether to show progress; None shows it unless the caller passes observers.
    """
    shown = [TrainingProgress(title, plain_console(stderr=True))] if _is_shown(observers, progress) else []
    return [*(observers or ()), *shown]


def watch_with_progress(watch: Watch | None, progress: bool | None) -> Watch:
    """Return the observers of training runs that follow each other, as `with_progress` does for one."""
    is_shown = _is_shown(watch, progress)
    return lambda title: with_progress(watch(title) if watch else (), is_shown, title)


@contextmanager
def trials_with_progress(watch: Watch | None, progress: bool | None) -> Iterator[Shown]:
    """Yield the observers of training runs at the same time, with one display for all of them."""
    if not _is_shown(watch, progress):
        yield Shown(watch or (lambda _title: ()), lambda _text: None)
        return
    with TrialsProgress(plain_console(stderr=True)) as display:
        yield Shown(lambda title: [*(watch(title) if watch else ()), *display.watch(title)], display.note)


def _is_shown(observers: object, progress: bool | None) -> bool:
    return observers is None if progress is None else progress
