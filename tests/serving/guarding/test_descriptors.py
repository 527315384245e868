"""Connections that the file descriptors allow."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from prunus.errors import PrunusError
from prunus.serving.guarding.descriptors import (
    FEWEST,
    LANE,
    SPARE,
    ConnectionLimits,
    available_descriptors,
    connection_limits,
    used_descriptors,
)


def test_enough_descriptors_allow_what_is_wanted() -> None:
    assert connection_limits(512, 512 + LANE + SPARE + 20, 20) == ConnectionLimits(512, LANE)


def test_too_few_descriptors_allow_less_and_the_reason_is_noted() -> None:
    limits = connection_limits(512, 80, 16)
    assert (limits.connections, limits.lane) == (35, 5)
    assert limits.connections + limits.lane + SPARE + 16 == 80
    assert limits.note == (
        "the limit of 80 open files (ulimit -n) allows 35 connections at the same time; max_connections is 512"
    )


def test_one_descriptor_decides() -> None:
    free = 512 + LANE
    assert connection_limits(512, free + SPARE, 0).note == ""
    assert connection_limits(512, free + SPARE - 1, 0).connections == 511


def test_hardly_any_descriptors_are_refused_with_the_number_that_suffices() -> None:
    needed = 16 + SPARE + FEWEST + 1
    assert connection_limits(512, needed, 16).connections == FEWEST
    with pytest.raises(PrunusError, match=f"open files .* is too low for a service, which needs {needed}"):
        connection_limits(512, needed - 1, 16)


def test_used_descriptors_are_counted() -> None:
    before = used_descriptors()
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
    assert used_descriptors() == before + 3
    for each in opened:
        os.close(each)


def test_the_limit_is_raised_as_far_as_needed_and_possible(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert available_descriptors(200) == 256
        assert available_descriptors(300) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, hard)
        if hard != resource.RLIM_INFINITY:
            assert available_descriptors(hard + 1) == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
