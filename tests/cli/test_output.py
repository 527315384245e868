"""Tables and JSON as commands print them."""

import ast
import json
from pathlib import Path

import pytest
from rich.console import Console

import prunus
from prunus.cli.output import make_table, measuring, print_json, say, show, tell
from prunus.measure.evaluation import Evaluation
from prunus.runtime.predictor import Prediction
from tests.makers.hostile_files import HOSTILE_NAMES
from tests.makers.run_folders import results

ROOT = Path(prunus.__file__).parent
# calls that write names as they are
AROUND = {"typer.echo", "typer.secho", "click.echo", "print", "rich.print", "Console", "Table"}


def test_models_are_printed_as_they_dump_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    evaluation = Evaluation.model_validate(results())
    print_json(evaluation)
    printed = json.loads(capsys.readouterr().out)
    assert printed == evaluation.model_dump(mode="json")
    assert "baselines" not in printed


def test_dataclasses_paths_and_tuples_are_plain_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"image": Path("rösli.jpg"), "predictions": (Prediction("rose", 0.5),)}])
    text = capsys.readouterr().out
    assert "rösli.jpg" in text
    assert json.loads(text) == [{"image": "rösli.jpg", "predictions": [{"label": "rose", "probability": 0.5}]}]


@pytest.mark.parametrize("gap", [None, 1])
def test_numbers_are_aligned_right_and_names_left(gap: int | None) -> None:
    table = make_table(("name", "count", "kind"), "things", left=("kind",), gap=gap)
    assert [column.justify for column in table.columns] == ["left", "right", "left"]
    assert str(table.title) == "things"
    table.add_row("a", "1", "b")
    console = Console(width=40)
    with console.capture() as capture:
        console.print(table)
    assert ("│" in capture.get()) == (gap is None)


def test_hostile_names_are_exact_in_json_and_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    names = [*HOSTILE_NAMES, "\udcff", "\U000e0041", "\x7f", "rösli 玫瑰"]
    print_json([*names, *map(Path, names)])
    text = capsys.readouterr().out
    assert json.loads(text) == [*names, *map(str, map(Path, names))]
    text.encode()
    assert set(filter(lambda character: not character.isprintable(), text)) == {"\n"}
    assert "rösli 玫瑰" in text


def test_lines_and_cells_show_names_as_one_visible_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    for name, visible in HOSTILE_NAMES.items():
        say(name)
        show(None, False, name, make_table((name, "x"), name, rows=[(name, "1")]))
        lines = capsys.readouterr().out.splitlines()
        assert lines[:3] == [visible, visible, lines[2]]
        assert lines[2].rstrip() == visible
        assert f"┃ {visible} ┃" in "\n".join(lines)
        assert f"│ {visible} │" in "\n".join(lines)


@pytest.mark.parametrize("file", [*ROOT.glob("cli/*.py"), *ROOT.glob("report/**/*.py")], ids=lambda file: file.name)
def test_no_other_module_writes_to_the_terminal(file: Path) -> None:
    calls = {ast.unparse(node.func) for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)}
    assert calls & AROUND == ({"typer.echo"} if file.name == "output.py" else set())


def test_a_measurement_shows_its_steps_in_a_terminal_and_nothing_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with measuring("measuring a run") as watch:
        watch("decoding", "birds", 3, 8)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("prunus.cli.output.plain_console", lambda **_: Console(force_terminal=True, width=80))
    with measuring("measuring a run") as watch:
        watch("decoding", "b[i]rds\x1b", 3, 8)
    printed = capsys.readouterr().out
    assert "decoding b[i]rds\\x1b" in printed
    assert "3/8" in printed


def test_sentences_break_between_words_in_a_terminal_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = "a name [bold] " + "word " * 30 + "end"
    tell(sentence, "\x1b")
    assert capsys.readouterr().out == f"{sentence}\n\\x1b\n"
    monkeypatch.setattr("prunus.cli.output.plain_console", lambda **_: Console(force_terminal=True, width=40))
    show(None, False, sentence)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert " ".join(" ".join(lines).split()) == sentence
    assert all(line.split()[-1] in ("word", "end") for line in lines)
