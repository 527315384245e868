"""The tables of `prunus versus` show what was measured."""

from pathlib import Path

from prunus.measure.alternatives.results import Versus
from prunus.report.alternatives.tables import to_markdown, versus_view
from prunus.report.alternatives.writing import write_versus
from prunus.terminal import plain_console
from tests.makers.versus_results import RESULTS, row, versus


def test_markdown_holds_every_number() -> None:
    lines = to_markdown(RESULTS).splitlines()
    assert "| lora: what lora is | 80.0 | 5.000 | 2.000 | 0.0 |" in lines
    assert "| accuracy (%) | birds (100 images) | flowers (400 images) |" in lines
    assert "| ours | 91.0 | 71.0 |" in lines
    assert "pruned could not be made: it has no layer to cut" in lines
    assert any("one seed" in line and "test images" in line for line in lines)


def test_verdicts_say_who_is_better_and_what_is_noise() -> None:
    lines = [line for line in to_markdown(RESULTS).splitlines() if "points" in line]
    lora, probe = lines
    assert "ours: +1.0 points, within the noise" in lora
    assert probe.count("ours_int8: +10.0 points, better") == 2
    worse = versus([row("lora", 0, 0.9, 9, 9.0), row("ours", 0, 0.5, 8, 10.0)])
    assert "ours: -40.0 points, **worse**" in to_markdown(worse)
    assert "none: all of ours cost more" in to_markdown(worse)


def test_seeds_have_a_spread() -> None:
    text = to_markdown(versus([row("ours", seed, 0.5 + 0.1 * seed, 1, 1.0) for seed in range(3)]))
    assert "60.0 ± 10.0" in text
    assert "means over the seeds 0, 1, 2" in text


def test_a_terminal_shows_both_tables() -> None:
    console = plain_console()
    with console.capture() as captured:
        console.print(versus_view(RESULTS))
    shown = " ".join(captured.get().split())
    assert "lora" in shown
    assert "what" in shown
    assert "within" in shown


def test_the_files_hold_the_results(tmp_path: Path) -> None:
    write_versus(tmp_path, RESULTS)
    assert Versus.model_validate_json((tmp_path / "versus.json").read_bytes()) == RESULTS
    assert (tmp_path / "versus.md").read_text() == to_markdown(RESULTS)
    assert (tmp_path / "versus.svg").read_text().startswith("<?xml")
