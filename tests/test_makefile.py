"""The Makefile says what it is doing before a step that takes long and prints nothing."""

from pathlib import Path

LINES = (Path(__file__).parents[1] / "Makefile").read_text().splitlines()
INSTALLING = [index for index, line in enumerate(LINES) if "pip install --quiet" in line]


def test_every_quiet_installation_is_announced() -> None:
    announced = [any("@echo" in line for line in LINES[index - 2 : index]) for index in INSTALLING]
    assert announced == [True, True, True]
