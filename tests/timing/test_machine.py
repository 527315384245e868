"""The machine is named as this process sees it."""

import os
from pathlib import Path

import pytest

from prunus.timing.machine import describe_machine, processor_flags, usable_processors


def test_the_machine_is_named_with_its_cores() -> None:
    assert " cores, Python 3." in describe_machine()


def test_processors_that_this_process_may_not_use_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert usable_processors() == 2
    assert ", 2 of 64 cores, " in describe_machine()
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_processors() == 64


def test_flags_are_single_words_of_the_processors_own_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: a\nflags\t\t: fpu avx2 avx512_vnni\nbugs\t: sysret\n")
    monkeypatch.setattr("prunus.timing.machine.CPUINFO", tmp_path / "cpuinfo")
    assert processor_flags() == {"fpu", "avx2", "avx512_vnni"}
    monkeypatch.setattr("prunus.timing.machine.CPUINFO", tmp_path / "none")
    assert processor_flags() == frozenset()
