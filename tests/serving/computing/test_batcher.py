"""Batches: who is computed together, who is skipped, and who learns of a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest

from prunus.serving.computing.batcher import Batcher
from prunus.serving.computing.ranking import Job, Outcome, Ranked, Ranking
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.messages import Decoded

LONG = 60.0  # a window that a test never waits for


class Recorder:
    """Work that records the domains of every batch, and waits while its gate is closed."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, jobs: Sequence[Job]) -> list[Outcome]:
        self.batches.append([job.domain for job in jobs])
        assert self.gate.wait(60)
        if "broken" in self.batches[-1]:
            raise RuntimeError("the network failed")
        return [
            Refusal(415, "not an image") if job.domain == "bad" else Ranked([job.domain], [Ranking([0], [1.0])])
            for job in jobs
        ]


@pytest.fixture
def work() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.gate.set()


def _job(domain: str) -> Job:
    return Job(Decoded([], []), domain)


async def _until_started(work: Recorder, batches: int) -> None:
    while len(work.batches) < batches:
        await asyncio.sleep(0.001)


def test_a_full_batch_starts_without_waiting_for_the_window(work: Recorder) -> None:
    async def ask() -> tuple[Ranked, ...]:
        batcher = Batcher(work, batch_requests=2, window=LONG)
        answers = await asyncio.gather(batcher.submit(_job("a")), batcher.submit(_job("b")))
        batcher.close(60)
        return answers

    assert [answer.names for answer in asyncio.run(ask())] == [["a"], ["b"]]
    assert work.batches == [["a", "b"]]


def test_a_request_waits_for_others_within_the_window(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_requests=8, window=0.05)
        first = batcher.submit(_job("a"))
        await asyncio.sleep(0)
        await asyncio.gather(first, batcher.submit(_job("b")))
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["a", "b"]]


def test_a_request_starts_immediately_if_no_other_is_arriving(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_requests=8, window=LONG, others_come=lambda: False)
        await batcher.submit(_job("a"))
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["a"]]


def test_requests_that_come_during_a_batch_share_the_next_and_abandoned_ones_are_skipped(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_requests=2, window=LONG, others_come=lambda: False)
        work.gate.clear()
        first = batcher.submit(_job("first"))
        await _until_started(work, 1)
        gone, second, third = (batcher.submit(_job(name)) for name in ("gone", "second", "third"))
        gone.cancel()
        assert len(batcher) == 3
        work.gate.set()
        await asyncio.gather(first, second, third)
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["first"], ["second", "third"]]  # the abandoned one takes no room in the batch either


def test_nothing_is_computed_if_every_request_is_abandoned(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_requests=8, window=0.01)
        batcher.submit(_job("gone")).cancel()
        await asyncio.sleep(0.05)
        await batcher.submit(_job("next"))
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["next"]]


def test_a_refusal_concerns_one_request_and_a_failure_the_whole_batch(work: Recorder) -> None:
    images: list[int] = []

    async def ask() -> list[tuple[Ranked | BaseException, ...]]:
        batcher = Batcher(work, batch_requests=2, window=LONG)
        batcher.on_batch = images.append
        mixed = await asyncio.gather(batcher.submit(_job("bad")), batcher.submit(_job("good")), return_exceptions=True)
        failed = await asyncio.gather(
            batcher.submit(_job("broken")), batcher.submit(_job("good")), return_exceptions=True
        )
        batcher.close(60)
        return [mixed, failed]

    (refusal, good), failed = asyncio.run(ask())
    assert isinstance(refusal, Refusal)
    assert isinstance(good, Ranked)
    assert [type(error) for error in failed] == [RuntimeError, RuntimeError]
    assert images == [1, 0]
