"""The time limit of a request: who is interrupted, with which reason, and who is not."""

from __future__ import annotations

import asyncio

import pytest

from prunus.serving.guarding.deadline import LATE_SECONDS, Deadline
from prunus.serving.refusals import Refusal

LATE = Refusal(408, "too slow")
GONE = Refusal(499, "gone")


def test_a_task_in_time_is_left_alone() -> None:
    async def work() -> str:
        with Deadline(60, LATE):
            await asyncio.sleep(0)
            return "done"

    assert asyncio.run(work()) == "done"


def test_a_task_that_takes_too_long_is_refused_for_its_current_stage_and_can_go_on() -> None:
    async def work() -> str:
        with pytest.raises(Refusal) as refused, Deadline(0.01, LATE) as deadline:
            deadline.refusal = GONE
            await asyncio.sleep(60)
        assert refused.value is GONE
        await asyncio.sleep(0)  # the task is no longer cancelled
        return "next"

    assert asyncio.run(work()) == "next"


def test_a_task_ends_with_what_it_watches() -> None:
    async def work() -> None:
        closed = asyncio.Event()
        with Deadline(60, LATE) as deadline:
            deadline.watch(closed.wait, GONE)
            asyncio.get_running_loop().call_later(0.01, closed.set)
            await asyncio.sleep(60)

    with pytest.raises(Refusal) as refused:
        asyncio.run(work())
    assert refused.value is GONE


def test_a_cancellation_from_elsewhere_is_no_refusal() -> None:
    async def work() -> None:
        with Deadline(60, LATE):
            await asyncio.sleep(60)

    async def cancel() -> None:
        task = asyncio.ensure_future(work())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())


def test_time_in_which_the_process_was_suspended_does_not_count() -> None:
    async def work() -> None:
        with Deadline(60, LATE) as deadline:
            now = asyncio.get_running_loop().time()
            deadline._expire(now - LATE_SECONDS - 1)  # a timer that fires much too late
            await asyncio.sleep(0)
            deadline._expire(now)
            await asyncio.sleep(60)

    with pytest.raises(Refusal) as refused:
        asyncio.run(work())
    assert refused.value is LATE
