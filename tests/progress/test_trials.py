"""Several training runs at a time share one display."""

import io

from rich.console import Console

from prunus.progress.trials import TrialsProgress
from prunus.run_folder import DomainProgress, EpochReport

REPORT = EpochReport(0, 10, {"birds": DomainProgress(1.0, 0.5, 0.75, 0.4)}, union=0.6)


def _train_two(is_terminal: bool) -> str:
    text = io.StringIO()
    with TrialsProgress(Console(file=text, width=100, force_terminal=is_terminal)) as display:
        (first,) = display.watch("1/2 bn")
        (second,) = display.watch("2/2 union-0.5")
        first.noted("a note")
        first.started(0, 10)
        second.started(4, 20)
        first.stepped(5, 0)
        first.epoch_ended(REPORT)
        display.bars.refresh()
        first.ended()
        second.ended()
    return text.getvalue()


def test_a_file_has_a_line_for_each_beginning_and_end() -> None:
    assert _train_two(False).splitlines() == [
        "note: a note",
        "1/2 bn: 10 steps to go",
        "2/2 union-0.5: 16 steps to go",
        "1/2 bn: epoch 1: mean accuracy 75.0 % (validation), switched on: at most 40.0 %, all domains together 60.0 %",
    ]


def test_a_terminal_has_a_bar_each() -> None:
    shown = _train_two(True)
    for part in ("1/2 bn", "5/10", "2/2 union-0.5", "4/20", "mean accuracy 75.0 %"):
        assert part in shown
    assert "steps to go" not in shown


def test_a_training_run_that_ends_before_it_starts_shows_nothing() -> None:
    text = io.StringIO()
    with TrialsProgress(Console(file=text)) as display:
        (observer,) = display.watch("1/1 bn")
        observer.stepped(1, 0)
        observer.ended()
    assert text.getvalue() == ""


def test_names_are_shown_and_not_obeyed() -> None:
    text = io.StringIO()
    with TrialsProgress(Console(file=text, width=100, force_terminal=True)) as display:
        (observer,) = display.watch("[/]\x1b]0;a\x07")
        observer.noted("[red]\u202e :bug:")
        observer.started(0, 10)
        observer.epoch_ended(REPORT)
        display.bars.refresh()
        observer.ended()
    shown = text.getvalue()
    assert r"[/]\x1b]0;a\x07: epoch 1" in shown
    assert r"note: [red]\u202e :bug:" in shown
    assert not set(shown) & set("\x07\u202e")
    assert "\x1b]" not in shown
