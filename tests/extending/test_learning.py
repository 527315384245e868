"""A teacher must answer better than what needs no training."""

from pathlib import Path

import pytest

from prunus.extending.learning import _taught, outdone
from prunus.recipes import with_absolute_paths
from prunus.run_folder import ENDING, DomainEnding, Ending, RunFolder
from tests.makers.tiny_training import tiny_recipe


def ending(reached: float | None, frozen: float | None) -> Ending:
    return Ending(1, {"cars": DomainEnding(1.0, 0.5, 24, reached, frozen)}, 1.0, has_switches=False)


@pytest.mark.parametrize(
    ("reached", "frozen", "is_left_out"),
    [(0.56, 0.9, True), (0.9, 0.9, False), (0.95, 0.9, False), (None, 0.9, False), (0.5, None, False)],
)
def test_a_teacher_is_left_out_if_frozen_features_classify_better(
    tmp_path: Path, reached: float | None, frozen: float | None, is_left_out: bool
) -> None:
    assert outdone(tmp_path) is None  # nothing is trained yet
    RunFolder(tmp_path).ending.write_bytes(ENDING.dump_json(ending(reached, frozen)))
    assert (outdone(tmp_path) is not None) == is_left_out


def test_a_teacher_is_named_as_a_run_stores_it_so_that_the_run_can_be_continued(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for folder in (tmp_path / "x" / ".." / "real", tmp_path / "link"):
        taught = _taught(tiny_recipe(), folder)
        assert taught.teacher == with_absolute_paths(taught, tmp_path).teacher
