"""Limits on waiting requests and on their bytes, counted up and down again."""

from __future__ import annotations

import pytest

from prunus.serving.guarding.admission import Admission
from prunus.serving.refusals import Refusal


def test_a_request_beyond_the_limit_is_refused_until_a_slot_is_free() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with admission.slot():
        with pytest.raises(Refusal, match="1 requests are waiting") as refused:
            admission.check()
        assert refused.value.status == 503
    admission.check()
    assert admission.requests == 0


def test_bytes_beyond_the_limit_are_refused_and_released_with_their_request() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with admission.load() as first, admission.load() as second:
        first.add(6)
        second.add(4)
        with pytest.raises(Refusal, match="requests already hold 10 bytes"):
            second.add(1)
        assert (admission.bytes, first.bytes, second.bytes) == (10, 6, 4)
    assert admission.bytes == 0


def test_a_request_is_arriving_until_it_says_otherwise_and_counts_once() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with admission.load() as first, admission.load():
        assert admission.arriving == 2
        first.arrived()
        first.arrived()
        assert admission.arriving == 1
    assert admission.arriving == 0


def test_a_request_that_fails_while_arriving_is_no_longer_expected() -> None:
    admission = Admission(max_requests=1, max_bytes=10)
    with pytest.raises(ConnectionError), admission.load() as load:
        load.add(3)
        raise ConnectionError
    assert (admission.arriving, admission.bytes) == (0, 0)
