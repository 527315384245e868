"""The page of errors quotes what Prunus says: every quote fits a text of the source, and the commands print it."""

import ast
import re
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from prunus.bundle.file import write_bundle
from prunus.cli.app import main
from prunus.cli.wording import on_command_line
from tests.conftest import write_domain
from tests.makers.graph_bundles import random_bundle, varied_graph

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```text\n(.*?)^```$", (ROOT / "docs/faq.md").read_text(), re.MULTILINE | re.DOTALL)
LEVELS = ("error: ", "warning: ", "note: ")
LEAST = 5  # letters that a part of a text must have besides what it fills in
FILLED = "\0"
REST = "..."  # stands for what a quote leaves out
RECIPE = 'backbone = "wrn14_2"\nbudget = 0.25\ndomains = ["data/birds", "data/{flowers}"]\n'


def _quotes() -> list[str]:
    lines = [line for block in BLOCKS for line in block.splitlines() if not line.startswith("$ ")]
    return [line.removeprefix(next(filter(line.startswith, LEVELS), "")) for line in lines]


@cache
def _texts() -> list[re.Pattern[str]]:
    """Return a pattern for every part of a text, up to a semicolon, that can be told from others."""
    found = set()
    for path in (ROOT / "src/prunus").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            values = node.values if isinstance(node, ast.JoinedStr) else [node]
            filled = [str(value.value) if isinstance(value, ast.Constant) else FILLED for value in values]
            found |= {part.strip() for part in on_command_line("".join(filled)).split(";")}
    told = sorted(part for part in found if " " in part and sum(map(str.isalpha, part)) >= LEAST)
    return [re.compile(re.escape(part).replace(re.escape(FILLED), ".*")) for part in told]


def _is_text(part: str) -> bool:
    return any(text.fullmatch(part) for text in _texts())


@pytest.mark.parametrize("quote", _quotes())
def test_every_part_of_a_quote_is_a_text_of_the_source(quote: str) -> None:
    parts = [part.strip() for part in quote.split(";") if part.strip() != REST]
    assert [
        part for part in parts if not _is_text(part) and not _is_text(part.partition(": ")[2])
    ] == []  # after a file


def test_a_changed_quote_would_be_noticed() -> None:
    assert not _is_text("copy it once more")
    assert _is_text("copy it again, or write it again with: prunus prune RUN")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as that of someone who has trained a first run."""
    path = tmp_path_factory.mktemp("faq")
    for name, classes in (("birds", ("owl", "wren")), ("flowers", ("rose", "tulip"))):
        write_domain(path / "data" / name, classes, train=2)
    shutil.copy(path / "data/flowers/test/rose/0.png", path / "rose.jpg")
    (path / "recipe.toml").write_text(RECIPE.format(flowers="flowers"))
    (path / "missing-folder.toml").write_text(RECIPE.format(flowers="flower"))
    (path / "runs/first").mkdir(parents=True)
    (path / "runs/first/recipe.json").write_text("{}")
    model = random_bundle(varied_graph(3), 12, ("birds", "flowers"), density=0.5, seed=3)
    write_bundle(path / "model.prunus", model)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.startswith("$ ")])
def test_a_command_prints_what_the_page_says(
    block: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *quoted = block.splitlines()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", shlex.split(command.removeprefix("$ ")))
    with pytest.raises(SystemExit) as stopped:
        main()
    printed = capsys.readouterr().err.replace(f"{folder}/", "")
    assert stopped.value.code == 1
    assert [line for line in quoted if line.removesuffix(REST) not in printed] == [], printed
