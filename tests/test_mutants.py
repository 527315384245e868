"""The sample of make mutants is the same for the same seed, and leaves out what is never executed."""

from pathlib import Path

import pytest

from mutants import results
from mutants.judging import KILLED, SURVIVED
from mutants.places import mutated, places
from mutants.results import Judged, Word, difference, summarize
from mutants.sample import PARTS, draw, modules

SOURCE = '''"""A module."""

from typing import overload


@overload
def double(x: int, times: int = 3) -> int: ...


def double(x: int | None, times: int = 2) -> int | None:
    return None if x is None else x + x * times
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "losses").mkdir()
    (tmp_path / "losses" / "double.py").write_text(SOURCE)
    (tmp_path / "losses" / "__init__.py").write_text("ONE = 1\n")
    return tmp_path


def test_annotations_and_overloads_are_not_changed(root: Path) -> None:
    found = list(places(root, "losses/double.py"))
    assert {place.line for place in found} == {10, 11}
    assert not any("BitOr" in place.operator for place in found)  # those of the annotations
    changed = {difference(SOURCE, code)[1] for place in found if (code := mutated(SOURCE, place))}
    assert "return None if x is None else x - x * times" in changed
    assert "return None if x is not None else x + x * times" in changed
    assert "def double(x: int | None, times: int = 3) -> int | None:" in {
        line.replace("=  3", "= 3") for line in changed
    }


def test_a_sample_depends_on_its_seed_and_has_one_mutant_per_position(root: Path) -> None:
    assert modules(root, "losses") == ["losses/double.py"]
    first, again, other = (draw(root, "losses", 3, seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    everything = draw(root, "losses", 100, 0)
    assert len({place.site for place in everything}) == len(everything) > 3
    assert everything[:3] == first


def test_lines_that_are_added_elsewhere_do_not_change_the_sample(root: Path) -> None:
    before = [place.name for place in draw(root, "losses", 3, 0)]
    (root / "losses" / "double.py").write_text(SOURCE.replace("@overload", 'NAME = "a"\n\n\n@overload', 1))
    assert [place.name for place in draw(root, "losses", 3, 0)] == before


def test_every_part_has_modules() -> None:
    root = Path(__file__).parents[1] / "src/prunus"
    assert all(len(modules(root, part)) > 1 for part in PARTS)


def _judged(name: str, outcome: str, before: str = "a + b") -> Judged:
    return Judged(name, "losses", "losses/double.py", 11, "core/x", before, "a - b", outcome, "", 1.0, "")


def test_survivors_that_change_nothing_are_counted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    same = Word(module="losses/double.py", before="a + 0", after="a - b", equivalent=True, why="the same")
    monkeypatch.setattr(results, "words", lambda: [same])
    rows = [_judged("1", KILLED), _judged("2", SURVIVED, "a + 0"), _judged("3", SURVIVED), _judged("4", KILLED)]
    summary = summarize(rows, "make mutants", "a machine", "a library", seed=3)
    assert (summary.drawn, summary.equivalent, summary.killed, summary.survived) == (4, 1, 2, 1)
    assert summary.killed_share == pytest.approx(2 / 3, abs=1e-4)
    assert [survivor.why for survivor in summary.equivalents] == ["the same"]
    assert [survivor.why for survivor in summary.survivors] == ["nothing is said about it yet"]


def test_every_word_about_a_survivor_says_why() -> None:
    assert all(len(word.why) > 10 for word in results.words())
