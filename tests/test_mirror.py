"""Tests mirror the source: a reader finds the tests of a module in the file of its name."""

from pathlib import Path

import pytest

import prunus

TESTS = Path(__file__).parent
ROOT = Path(prunus.__file__).parent
MOST_LINES = 60  # of a module without a test file of its name
MODULES = [path for path in sorted(ROOT.rglob("*.py")) if not path.name.startswith("__")]
LARGE = [path.relative_to(ROOT) for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES]


@pytest.mark.parametrize("module", LARGE, ids=str)
def test_a_large_module_has_a_test_file_of_its_name(module: Path) -> None:
    assert "def test_" in (TESTS / module.parent / f"test_{module.name}").read_text()


def test_every_folder_of_tests_has_a_folder_of_the_source() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")} - {Path("golden"), Path("native")}
    assert [str(folder) for folder in sorted(folders) if not (ROOT / folder).is_dir()] == []
