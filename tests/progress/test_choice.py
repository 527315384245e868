"""Progress is shown unless the caller turns it off or watches with observers of their own."""

import pytest

from prunus.progress.choice import trials_with_progress, watch_with_progress, with_progress
from prunus.progress.training import TrainingProgress
from prunus.progress.trials import TrialProgress
from prunus.training.observers import Observer

OWN = Observer()
CASES = [(None, None, True), (None, True, True), (None, False, False), ([OWN], None, False), ([OWN], True, True)]


@pytest.mark.parametrize(("observers", "progress", "is_shown"), CASES)
def test_progress_is_shown_beside_the_observers_of_the_caller(
    observers: list[Observer] | None, progress: bool | None, is_shown: bool
) -> None:
    one = with_progress(observers, progress, "runs/a")
    watch = None if observers is None else lambda _title: observers
    several = watch_with_progress(watch, progress)("runs/a")
    for watching, kind in ((one, TrainingProgress), (several, TrainingProgress)):
        assert [observer for observer in watching if observer is OWN] == (observers or [])
        assert any(isinstance(observer, kind) for observer in watching) is is_shown
    with trials_with_progress(watch, progress) as shown:
        assert any(isinstance(observer, TrialProgress) for observer in shown.watch("runs/a")) is is_shown


@pytest.mark.parametrize("progress", [True, False])
def test_progress_goes_to_standard_error(progress: bool, capsys: pytest.CaptureFixture[str]) -> None:
    for observer in with_progress(None, progress, "runs/a"):
        observer.started(0, 10)
        observer.ended()
    with trials_with_progress(None, progress) as shown:
        shown.note("a note")
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == ("runs/a: 10 steps to go\nnote: a note\n" if progress else "")
