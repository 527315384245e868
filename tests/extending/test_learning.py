"""A teacher must answer better than what needs no training."""

from pathlib import Path

import pytest

from prunus.extending.learning import outdone
from prunus.run_folder import ENDING, DomainEnding, Ending, RunFolder


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
