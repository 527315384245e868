"""One of the processes that torchrun started writes files, and a process that is alone always does."""

import pytest

from prunus.parallel.joining import is_first_process


@pytest.mark.parametrize(
    ("world", "rank", "is_first"),
    [(None, None, True), (None, "1", True), ("1", "0", True), ("2", "0", True), ("2", "1", False), ("12", "10", False)],
)
def test_the_first_process_is_known_by_its_rank(
    monkeypatch: pytest.MonkeyPatch, world: str | None, rank: str | None, is_first: bool
) -> None:
    for name, value in (("WORLD_SIZE", world), ("RANK", rank)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert is_first_process() == is_first
