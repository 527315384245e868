"""Errors name Python's arguments in Python and options on the command line."""

import ast
import re
from pathlib import Path

import pytest

import prunus
from prunus.cli.wording import on_command_line
from prunus.quantizing.run_images import WAYS

ROOT = Path(prunus.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")
# texts for a command line or a page: of other programs, the service, model cards, reports, recipes, and next steps
OTHERS = {
    *("parallel/joining.py", "comparison/cluster.py", "serving/guarding/hosts.py"),
    *(
        "report/card.py",
        "report/tables.py",
        "report/page/contents.py",
        "report/page/reading.py",
        "verbs/train.py",
        "drafting/draft.py",
        "extending/continuing.py",
    ),
}


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ("continue with: prunus.resume('runs/a b'), or not", "continue with: prunus train --resume runs/a b, or not"),
        ("with: prunus.train('recipe.toml', 'runs/a')", "with: prunus train recipe.toml --out runs/a"),
        ("with: prunus.prune('RUN', 'model.prunus')", "with: prunus prune RUN --out model.prunus"),
        (
            "with: prunus.prune('RUN', 'model.prunus', dtype='float32')",
            "with: prunus prune RUN --out model.prunus --dtype float32",
        ),
        ("write floats with the argument dtype='float16'", "write floats with --dtype float16"),
        ("use the argument data='DIR'", "use --data DIR"),
        ("off with the argument use_cache=False", "off with --no-cache"),
        ("or train again with the argument replace=True", "or train again with --replace"),
        ("the argument teacher=None trains without it", "--teacher none trains without it"),
        ("the argument settings and the argument teacher", "--set and --teacher"),
        (
            "skip such images with skip_bad_images = true in the recipe",
            "skip such images with --set skip_bad_images=true",
        ),
        (
            "a domain with: prunus.remove_domain('FILE', 'NAME', 'smaller.prunus')",
            "a domain with: prunus remove-domain FILE NAME --out smaller.prunus",
        ),
        ("use the argument methods, as in taps:sparsity=0.5", "use --methods, as in taps:sparsity=0.5"),
        ('use the override budget.bytes="1 MB"', 'use --set budget.bytes="1 MB"'),
        ("nothing to change", "nothing to change"),
    ],
)
def test_a_python_error_is_said_in_options(python: str, expected: str) -> None:
    assert on_command_line(python) == expected


def _texts(path: Path) -> list[str]:
    """Return the texts of a module, without its docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    return [node.value for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("text", [WAYS, *_texts(ROOT / "editing" / "domains.py")])
def test_what_is_said_about_8_bits_has_no_python_on_the_command_line(text: str) -> None:
    assert not re.search(r"prunus\.\w+\(|\b\w+='", on_command_line(text))


def test_no_room_below_the_command_line_names_an_option() -> None:
    modules = [path for path in ROOT.rglob("*.py") if "cli" not in path.relative_to(ROOT).parts]
    naming = {str(path.relative_to(ROOT)) for path in modules if any(FLAG.search(text) for text in _texts(path))}
    assert naming == OTHERS
