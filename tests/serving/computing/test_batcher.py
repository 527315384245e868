"""Batches: who is computed together, who is skipped, and who learns of a failure."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from prunus.arrays import Bytes
from prunus.serving.computing.batcher import Batcher
from prunus.serving.computing.ranking import Job, Ranked, Ranking
from prunus.serving.uploads.messages import Decoded

LONG = 60.0  # a window that a test never waits for


class Recorder:
    """Work that records the domains of every batch, and waits while its gate is closed."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, images: Sequence[Bytes], domains: Sequence[str]) -> list[Ranking]:
        self.batches.append(list(domains))
        assert self.gate.wait(60)
        if "broken" in self.batches[-1]:
            raise RuntimeError("the network failed")
        return [Ranking([int(image[0, 0, 0])], [1.0]) for image in images]


@pytest.fixture
def work() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.gate.set()


def _job(domain: str, images: int = 1, client: str = "") -> Job:
    """Return a request whose images can be told apart by their first value."""
    return Job(
        Decoded([f"{domain}{number}" for number in range(images)], list(_images(images))), domain, client or domain
    )


def _images(count: int) -> Bytes:
    return np.arange(count, dtype=np.uint8)[:, None, None, None] * np.ones((1, 3, 2, 2), np.uint8)


async def _until_started(work: Recorder, batches: int) -> None:
    while len(work.batches) < batches:
        await asyncio.sleep(0.001)


def test_a_full_batch_starts_without_waiting_for_the_window(work: Recorder) -> None:
    async def ask() -> tuple[Ranked, ...]:
        batcher = Batcher(work, batch_images=2, window=LONG)
        answers = await asyncio.gather(batcher.submit(_job("a")), batcher.submit(_job("b")))
        batcher.close(60)
        return answers

    assert [answer.names for answer in asyncio.run(ask())] == [["a0"], ["b0"]]
    assert work.batches == [["a", "b"]]


def test_a_request_waits_for_others_within_the_window(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_images=8, window=0.05)
        first = batcher.submit(_job("a"))
        await asyncio.sleep(0)
        await asyncio.gather(first, batcher.submit(_job("b")))
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["a", "b"]]


def test_a_request_starts_immediately_if_no_other_is_arriving(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_images=8, window=LONG, others_come=lambda: False)
        await batcher.submit(_job("a"))
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["a"]]


def test_requests_that_come_during_a_batch_share_the_next_and_abandoned_ones_are_skipped(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_images=2, window=LONG, others_come=lambda: False)
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
        batcher = Batcher(work, batch_images=8, window=0.01)
        batcher.submit(_job("gone")).cancel()
        await asyncio.sleep(0.05)
        await batcher.submit(_job("next"))
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["next"]]


def test_a_failure_concerns_the_requests_of_one_batch(work: Recorder) -> None:
    images: list[int] = []

    async def ask() -> list[tuple[Ranked | BaseException, ...]]:
        batcher = Batcher(work, batch_images=2, window=LONG)
        batcher.on_batch = images.append
        good = await asyncio.gather(batcher.submit(_job("a")), batcher.submit(_job("b")), return_exceptions=True)
        failed = await asyncio.gather(
            batcher.submit(_job("broken")), batcher.submit(_job("good")), return_exceptions=True
        )
        batcher.close(60)
        return [good, failed]

    good, failed = asyncio.run(ask())
    assert [type(answer) for answer in good] == [Ranked, Ranked]
    assert [type(error) for error in failed] == [RuntimeError, RuntimeError]
    assert images == [2, 0]


def test_a_batch_is_full_of_images_and_large_requests_take_several(work: Recorder) -> None:
    sizes: list[int] = []
    begun: list[str] = []

    async def ask() -> list[Ranked]:
        batcher = Batcher(work, batch_images=4, window=LONG)
        batcher.on_batch = sizes.append
        jobs = [_job("a", 3), _job("b", 6), _job("c", 5)]
        answers = await asyncio.gather(
            *(batcher.submit(replace(job, begins=partial(begun.append, job.domain))) for job in jobs)
        )
        assert len(batcher) == 0
        batcher.close(60)
        return answers

    answers = asyncio.run(ask())
    assert sizes == [4, 4, 4, 2]
    assert begun == ["a", "b", "c"]  # once each
    for answer, domain, count in zip(answers, "abc", (3, 6, 5), strict=True):
        assert answer.names == [f"{domain}{number}" for number in range(count)]
        assert [ranking.classes for ranking in answer.rankings] == [[number] for number in range(count)]


def test_a_small_request_waits_for_a_batch_and_not_for_a_crowd_of_large_ones(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_images=8, window=LONG, others_come=lambda: False)
        work.gate.clear()
        crowd = [batcher.submit(_job("large", 16, f"attacker {number}")) for number in range(32)]
        await _until_started(work, 1)
        small = batcher.submit(_job("small"))
        work.gate.set()
        await small
        computed = len(work.batches)
        small = batcher.submit(_job("small"))  # in the middle of the round
        await small
        assert len(work.batches) <= computed + 4
        await asyncio.gather(*crowd)
        batcher.close(60)

    asyncio.run(ask())
    assert "small" in work.batches[1]
    assert max(map(len, work.batches)) == 8
    assert sum(map(len, work.batches)) == 32 * 16 + 2


def test_one_client_with_many_requests_does_not_delay_another(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_images=1, window=LONG, others_come=lambda: False)
        work.gate.clear()
        many = [batcher.submit(_job("many", client="one")) for _ in range(10)]
        await _until_started(work, 1)
        few = [batcher.submit(_job("few", client="other")) for _ in range(2)]
        work.gate.set()
        await asyncio.gather(*many, *few)
        batcher.close(60)

    asyncio.run(ask())
    domains = [domain for batch in work.batches for domain in batch]
    assert domains.index("few") == 1
    assert domains[:6].count("few") == 2


def test_the_rest_of_a_request_that_is_abandoned_between_two_batches_is_not_computed(work: Recorder) -> None:
    async def ask() -> None:
        batcher = Batcher(work, batch_images=2, window=LONG, others_come=lambda: False)
        work.gate.clear()
        gone = batcher.submit(_job("gone", 9))
        await _until_started(work, 1)
        second = batcher.submit(_job("second", 3))
        gone.cancel()
        work.gate.set()
        await second
        batcher.close(60)

    asyncio.run(ask())
    assert work.batches == [["gone", "gone"], ["second", "second"], ["second"]]


def test_the_seconds_of_an_image_are_measured(work: Recorder) -> None:
    async def ask() -> float:
        batcher = Batcher(work, batch_images=2, window=LONG, others_come=lambda: False)
        work.gate.clear()
        answer = batcher.submit(_job("a", 2))
        await asyncio.sleep(0.1)
        work.gate.set()
        await answer
        batcher.close(60)
        return batcher.image_seconds

    assert 0.004 < asyncio.run(ask()) < 1.0  # at first a tenth of 0.05 seconds
