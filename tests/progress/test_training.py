"""The progress of a training run in a terminal, in a file, and while images are decoded."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from prunus.progress.training import TrainingProgress
from prunus.run_folder import DomainProgress, EpochReport


def _report(validation: float | None) -> EpochReport:
    domains = {
        "birds": DomainProgress(1.25, 0.5, validation, 0.4),
        "flowers": DomainProgress(0.75, 0.7, validation, 0.3),
    }
    return EpochReport(1, 8, domains, union=0.6, intersection=0.1)


def _console(is_terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=100, force_terminal=is_terminal), text


@pytest.mark.parametrize(("validation", "shown"), [(0.25, "25.0 % (validation)"), (None, "60.0 % (training images)")])
def test_a_file_has_one_line_per_epoch(validation: float | None, shown: str) -> None:
    console, text = _console(False)
    progress = TrainingProgress("runs/a", console)
    progress.loaded("birds", 1, 2)
    progress.started(4, 10)
    progress.stepped(5, 1)
    progress.progressed(_report(None))
    progress.epoch_ended(_report(validation))
    progress.ended()
    assert text.getvalue() == (
        "runs/a: 6 steps to go\n"
        f"  epoch 2: mean accuracy {shown}, switched on: at most 40.0 %, all domains together 60.0 %\n"
    )


@pytest.mark.parametrize("is_terminal", [True, False])
def test_kernels_that_are_switched_on_are_called_used_at_the_end_when_a_file_would_have_them(is_terminal: bool) -> None:
    console, text = _console(is_terminal)
    progress = TrainingProgress("runs/a", console)
    progress.started(0, 10)
    progress.epoch_ended(replace(_report(0.25), is_ending=True))
    progress.ended()
    words = ("kernels used by any domain", "kernels used ") if is_terminal else ("largest usage 40.0 %, all domains",)
    assert all(word in text.getvalue() for word in words)
    assert "switched on" not in text.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_speed_is_shown_where_it_is_known(is_terminal: bool) -> None:
    console, text = _console(is_terminal)
    progress = TrainingProgress("runs/a", console)
    progress.started(0, 10)
    progress.epoch_ended(replace(_report(0.25), images_per_second=36123.4))
    progress.ended()
    assert "36,123 images/s" in text.getvalue()


def test_a_terminal_shows_a_bar_and_a_table_of_the_domains() -> None:
    console, text = _console(True)
    progress = TrainingProgress("runs/a", console)
    progress.started(0, 10)
    progress.stepped(8, 1)
    progress.epoch_ended(_report(0.25))
    progress.ended()
    shown = text.getvalue()
    assert "8/10" in shown
    for cell in (
        "birds",
        "1.250",
        "50.0 %",
        "25.0 %",
        "40.0 %",
        "flowers",
        "switched on by any domain 60.0 %,",
        "by every domain 10.0 %",
    ):
        assert cell in shown


@pytest.mark.parametrize(("validation", "is_shown"), [(0.25, True), (None, False)])
def test_validation_is_a_column_only_where_images_are_held_out(validation: float | None, is_shown: bool) -> None:
    console, text = _console(True)
    progress = TrainingProgress("runs/a", console)
    progress.started(0, 10)
    progress.epoch_ended(_report(validation))
    progress.ended()
    assert ("validation" in text.getvalue()) == is_shown
    assert "40.0 %" in text.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_kernels_used_are_left_out_if_the_method_does_not_choose_them(is_terminal: bool) -> None:
    console, text = _console(is_terminal)
    progress = TrainingProgress("runs/a", console)
    progress.started(0, 10)
    progress.epoch_ended(replace(_report(0.25), has_switches=False, images_per_second=9.0))
    progress.ended()
    shown = text.getvalue()
    assert "25.0 %" in shown
    assert "9 images/s" in shown
    assert [
        word for word in ("usage", "together", "any domain", "every domain", "kernels", "40.0 %") if word in shown
    ] == []
    if not is_terminal:
        assert shown.endswith("  epoch 2: mean accuracy 25.0 % (validation), 9 images/s\n")


def test_decoding_has_a_bar_per_domain_and_split_in_a_terminal() -> None:
    console, text = _console(True)
    progress = TrainingProgress("runs/a", console)
    for done in (1, 2):
        progress.loaded("birds", done, 2)
    progress.loaded("birds", 3, 5)  # another split
    progress.started(0, 1)
    progress.ended()
    assert "decoding birds" in text.getvalue()
    assert "2/2" in text.getvalue()
    assert "3/5" in text.getvalue()


def test_the_bars_of_two_splits_with_as_many_images_are_told_apart() -> None:
    console, text = _console(True)
    progress = TrainingProgress("runs/a", console)
    for split in ("train", "validation"):
        progress.loading("birds", split)
        progress.loaded("birds", 2, 2)
    progress.started(0, 1)
    progress.ended()
    for split in ("train", "validation"):
        assert f"decoding birds ({split})" in text.getvalue()


def test_notes_are_printed_as_they_are() -> None:
    console, text = _console(False)
    TrainingProgress("runs/a", console).noted("skipped [bold] images")
    assert text.getvalue() == "note: skipped [bold] images\n"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_names_are_shown_and_not_obeyed(is_terminal: bool) -> None:
    console, text = _console(is_terminal)
    progress = TrainingProgress("[/]\x1b]0;a\x07", console)
    progress.noted("[red]\u202e :bug:")
    progress.loaded("[/]\x9b", 1, 2)
    progress.started(0, 2)
    progress.progressed(replace(_report(None), domains={"[/]\x1b[2J": DomainProgress(1.0, 0.5, None, 0.4)}))
    progress.ended()
    shown = text.getvalue()
    assert r"[/]\x1b]0;a\x07" in shown
    assert r"note: [red]\u202e :bug:" in shown
    assert not set(shown) & set("\x07\x9b\u202e")
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert (r"[/]\x1b[2J" in shown and r"decoding [/]\x9b" in shown) == is_terminal
