"""The decoders of a service survive what they are sent, and heavy requests do not delay light ones."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import struct
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prunus.images import crop_windows, read_image
from prunus.serving.refusals import Refusal
from prunus.serving.uploads import decoders
from prunus.serving.uploads import process as processes
from prunus.serving.uploads.decoders import STOPPED, Decoders, Limits, check_answer
from prunus.serving.uploads.decoding import TOO_LARGE, TOO_SLOW
from prunus.serving.uploads.messages import Answer, Body, Decoded
from prunus.serving.uploads.parsing import split_uploads
from prunus.serving.uploads.process import DecoderProcess
from tests.makers.live_service import Live, encode, live_service, picture, until
from tests.makers.upload_bodies import PREPROCESS, TURNED, body, flat_png, padded_jpeg

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
LARGE = flat_png(1500, 1000)  # never quick


class CountedDecoders(Decoders):
    """Decoders with one process for each lane by default, which count their restarts."""

    def __init__(self, seconds: float = 10.0, pixels: int = 32_000_000, slow: int = 1) -> None:
        self.restarts = 0
        super().__init__(Limits(16, pixels, seconds, 30.0), slow, self._count)

    def _count(self) -> None:
        self.restarts += 1


def run(make: Callable[[], CountedDecoders], talk: Callable[[CountedDecoders], Awaitable[None]]) -> None:
    """Start decoders, talk to them and stop them."""

    async def whole() -> None:
        tested = make()
        await tested.start()
        try:
            await asyncio.wait_for(talk(tested), 60)
        finally:
            tested.close()
            await asyncio.sleep(0)

    asyncio.run(whole())


async def the_process(tested: CountedDecoders, lane: str) -> DecoderProcess:
    """Return the process of a lane when it is ready."""
    while not (processes := getattr(tested, lane).processes) or not processes[0].was_ready:
        await asyncio.sleep(0.01)
    process: DecoderProcess = processes[0]
    return process


async def works_on(process: DecoderProcess) -> None:
    while not process.jobs:
        await asyncio.sleep(0.001)


async def refusal_of(request: Awaitable[Decoded]) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        await request
    return refused.value.status, refused.value.message


def assert_right(found: Decoded, sent: Body) -> None:
    """Compare with what a predictor prepares; `decode` would limit the CPU time of the tests' own process."""
    (window,) = crop_windows(PREPROCESS.resize, PREPROCESS.size, 1)
    contents = [upload.content for upload in split_uploads(sent.content, b"b", 16)]
    expected = [PREPROCESS.crop(PREPROCESS.store(read_image(content)), *window) for content in contents]
    assert np.stack(found.images).tobytes() == np.stack(expected).tobytes()


def test_requests_of_both_lanes_come_back_bit_by_bit() -> None:
    async def talk(tested: CountedDecoders) -> None:
        bodies = [body(picture(seed), client=str(seed)) for seed in range(20)] + [body(LARGE, picture(1))]
        for found, sent in zip(await asyncio.gather(*map(tested.decode, bodies)), bodies, strict=True):
            assert_right(found, sent)
            assert found.seconds >= 0
        assert tested.restarts == 0

    run(CountedDecoders, talk)


@pytest.mark.slow
def test_a_request_whose_process_is_killed_is_decoded_by_another_and_one_that_kills_too_many_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoders, "MAX_DEATHS", 2)

    async def talk(tested: CountedDecoders) -> None:
        quick, slow = await the_process(tested, "quick"), await the_process(tested, "slow")
        os.kill(quick.pid, signal.SIGSTOP)
        requests = [asyncio.ensure_future(tested.decode(body(picture(seed)))) for seed in range(3)]
        await works_on(quick)
        os.kill(quick.pid, signal.SIGKILL)
        for seed, request in enumerate(requests):
            assert_right(await request, body(picture(seed)))
        assert tested.restarts == 1

        quick = await the_process(tested, "quick")
        for process in (quick, slow):
            os.kill(process.pid, signal.SIGSTOP)
        request = asyncio.ensure_future(tested.decode(body(picture(1))))
        for process in (quick, slow):
            await works_on(process)
            os.kill(process.pid, signal.SIGKILL)
        assert await refusal_of(request) == (422, STOPPED)
        assert tested.restarts == 3
        assert_right(await tested.decode(body(picture(1))), body(picture(1)))

    run(CountedDecoders, talk)


@pytest.mark.slow
def test_a_request_that_uses_up_its_cpu_time_is_refused_and_its_process_goes_on() -> None:
    bomb = padded_jpeg(picture(1, "JPEG"), 4_000_000)

    async def talk(tested: CountedDecoders) -> None:
        assert await refusal_of(tested.decode(body(bomb))) == (422, TOO_SLOW)
        assert tested.restarts == 0
        slow = await the_process(tested, "slow")
        os.kill(slow.pid, signal.SIGSTOP)
        request = asyncio.ensure_future(tested.decode(body(LARGE)))
        await works_on(slow)
        os.kill(slow.pid, signal.SIGXCPU)  # what the system does if Python code does not notice
        os.kill(slow.pid, signal.SIGCONT)
        assert await refusal_of(request) == (422, TOO_SLOW)
        assert_right(await tested.decode(body(LARGE)), body(LARGE))
        assert tested.restarts == 1

    run(lambda: CountedDecoders(seconds=0.1), talk)


def test_a_small_request_that_takes_long_is_moved_out_of_the_way_of_others() -> None:
    slow_one = body(padded_jpeg(picture(1, "JPEG"), 250_000), client="heavy")
    order: list[str] = []

    async def ask(tested: CountedDecoders, sent: Body) -> None:
        assert_right(await tested.decode(sent), sent)
        order.append(str(sent.client))

    async def talk(tested: CountedDecoders) -> None:
        await the_process(tested, "slow")
        os.kill(tested.slow.processes[0].pid, signal.SIGSTOP)
        waiting = asyncio.ensure_future(ask(tested, slow_one))
        await works_on(tested.quick.processes[0])
        await asyncio.gather(*(ask(tested, body(picture(seed), client="light")) for seed in range(5)))
        await works_on(tested.slow.processes[0])
        os.kill(tested.slow.processes[0].pid, signal.SIGCONT)
        await waiting

    run(CountedDecoders, talk)
    assert order == ["light"] * 5 + ["heavy"]


def test_a_file_that_claims_much_memory_is_refused_and_takes_none() -> None:
    frame = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (16382).to_bytes(3, "little") * 2
    bomb = b"RIFF" + struct.pack("<I", 4 + len(frame)) + b"WEBP" + frame

    async def talk(tested: CountedDecoders) -> None:
        quick = await the_process(tested, "quick")
        status, message = await refusal_of(tested.decode(body(bomb)))
        assert (status, "more pixels" in message) == (413, True)
        status, message = await refusal_of(tested.decode(body(*[flat_png(1000, 1000)] * 3)))
        assert (status, "3,000,000 pixels together" in message) == (413, True)
        assert tested.restarts == 0
        if sys.platform == "linux":
            peak = Path(f"/proc/{quick.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
            assert int(peak) < 150_000  # kB

    run(lambda: CountedDecoders(pixels=2_000_000), talk)


def test_a_heavy_client_does_not_delay_a_light_one() -> None:
    """The order in which requests are finished is compared, not their time."""
    order: list[str] = []

    async def ask(tested: CountedDecoders, sent: Body) -> None:
        await tested.decode(sent)
        order.append(str(sent.client))

    async def talk(tested: CountedDecoders) -> None:
        slow = await the_process(tested, "slow")
        os.kill(slow.pid, signal.SIGSTOP)
        heavy = [asyncio.ensure_future(ask(tested, body(LARGE, client="heavy"))) for _ in range(5)]
        while len(tested.slow.queue) < 4:
            await asyncio.sleep(0.01)
        small = [asyncio.ensure_future(ask(tested, body(picture(seed), client="small"))) for seed in range(5)]
        await asyncio.gather(*small)
        assert order == ["small"] * 5
        light = asyncio.ensure_future(ask(tested, body(LARGE, client="light")))
        while len(tested.slow.queue) < 5:
            await asyncio.sleep(0.01)
        os.kill(slow.pid, signal.SIGCONT)
        await asyncio.gather(light, *heavy)

    run(CountedDecoders, talk)
    assert order[5:].index("light") <= 1  # one was already being decoded


@pytest.mark.slow
def test_a_request_that_nobody_waits_for_is_not_decoded() -> None:
    async def talk(tested: CountedDecoders) -> None:
        slow = await the_process(tested, "slow")
        os.kill(slow.pid, signal.SIGSTOP)
        begun, queued = (asyncio.ensure_future(tested.decode(body(LARGE, client=name))) for name in "ab")
        while not len(tested.slow.queue):
            await asyncio.sleep(0.01)
        queued.cancel()
        await asyncio.gather(queued, return_exceptions=True)
        assert len(tested.slow.queue) == 0
        assert tested.restarts == 0
        begun.cancel()
        while not tested.restarts:  # the process would take its time
            await asyncio.sleep(0.01)
        assert_right(await tested.decode(body(LARGE)), body(LARGE))
        assert tested.restarts == 1

    run(CountedDecoders, talk)


@pytest.mark.slow
def test_huge_images_have_a_process_of_their_own_that_ends_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "IDLE_SECONDS", 0.1)
    huge = body(flat_png(8000, 2100), client="huge")

    async def talk(tested: CountedDecoders) -> None:
        slow = await the_process(tested, "slow")
        assert tested.huge.processes == []
        request = asyncio.ensure_future(tested.decode(huge))
        alone = await the_process(tested, "huge")
        os.kill(alone.pid, signal.SIGSTOP)
        assert_right(await tested.decode(body(LARGE)), body(LARGE))
        os.kill(alone.pid, signal.SIGCONT)
        assert_right(await request, huge)
        while tested.huge.processes:
            await asyncio.sleep(0.01)
        assert tested.slow.processes == [slow]
        assert tested.restarts == 0

    run(CountedDecoders, talk)


def flat_webp(width: int, height: int, **options: object) -> bytes:
    return encode([Image.new("RGBA", (width, height), (255, 0, 0, 128))], "WEBP", lossless=True, method=0, **options)


@pytest.mark.slow
def test_a_request_is_tried_twice_more_and_only_cpu_time_that_is_known_is_charged() -> None:
    charged: list[float] = []
    heavy = body(flat_png(3800, 3800))

    async def talk(tested: CountedDecoders) -> None:
        tested.on_cpu = lambda client, seconds: charged.append(seconds)
        await the_process(tested, "slow")
        request = asyncio.ensure_future(tested.decode(heavy))
        killed: set[int] = set()
        while len(killed) < 3:
            for process in tested.slow.processes:
                if process.jobs and process.was_ready and process.pid not in killed:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.add(process.pid)
            await asyncio.sleep(0.001)
        assert await refusal_of(request) == (422, STOPPED)
        assert tested.restarts == 3
        assert sum(charged) < 1  # only the quick lane, which read the headers

        slow = await the_process(tested, "slow")
        request = asyncio.ensure_future(tested.decode(heavy))
        await works_on(slow)
        os.kill(slow.pid, signal.SIGXCPU)
        assert await refusal_of(request) == (422, TOO_SLOW)
        assert charged[-1] == 10.0

    run(CountedDecoders, talk)


@pytest.mark.slow
def test_the_largest_webp_that_is_turned_upright_is_decoded_and_leaves_its_process_fit_for_others() -> None:
    largest = body(flat_webp(5656, 5656, exif=TURNED))
    photo = body(encode([Image.new("RGB", (6000, 4000), "red")], "WEBP", quality=30, method=0))

    async def talk(tested: CountedDecoders) -> None:
        for sent in (largest, photo, largest, photo):
            assert_right(await tested.decode(sent), sent)
        assert tested.restarts == 0

    run(CountedDecoders, talk)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of another process")
def test_a_request_that_finds_too_little_memory_is_decoded_by_a_fresh_process() -> None:
    photo = body(flat_webp(3200, 3100))

    async def talk(tested: CountedDecoders) -> None:
        slow = await the_process(tested, "slow")
        size = int(Path(f"/proc/{slow.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(slow.pid, resource.RLIMIT_AS, (size + 50_000_000, size + 50_000_000))
        assert_right(await tested.decode(photo), photo)
        assert tested.restarts == 1
        assert_right(await tested.decode(photo), photo)
        assert tested.restarts == 1

    run(CountedDecoders, talk)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit memory")
def test_a_request_that_never_fits_in_memory_is_refused_and_its_processes_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    less = "import prunus.serving.uploads.restraint as restraint\nrestraint.PIXEL_BYTES = 1\nrun_decoder("
    monkeypatch.setattr(processes, "PROGRAM", processes.PROGRAM.replace("run_decoder(", less))
    turned = body(flat_png(3500, 3500))

    async def talk(tested: CountedDecoders) -> None:
        assert await refusal_of(tested.decode(body(flat_webp(5656, 5656)))) == (413, TOO_LARGE)
        while tested.restarts < 2:
            await asyncio.sleep(0.01)
        assert_right(await tested.decode(turned), turned)
        assert tested.restarts == 2

    run(CountedDecoders, talk)


@pytest.mark.slow
def test_photographs_wait_while_they_and_a_huge_image_would_take_too_much_memory() -> None:
    huge = body(flat_webp(5656, 5656), client="huge")
    photos = [body(flat_png(3800, 3800), client=str(number)) for number in range(2)]

    async def talk(tested: CountedDecoders) -> None:
        slow = await the_process(tested, "slow")
        os.kill(slow.pid, signal.SIGSTOP)
        requests = [asyncio.ensure_future(tested.decode(photo)) for photo in photos]
        while len(tested.slow.processes) < 2 or not tested.slow.processes[1].jobs:
            await asyncio.sleep(0.01)  # without a huge image, both are decoded at once
        os.kill(tested.slow.processes[1].pid, signal.SIGSTOP)
        waiting = asyncio.ensure_future(tested.decode(huge))
        while not tested.huge.queue:
            await asyncio.sleep(0.01)
        assert not tested.huge.processes
        os.kill(tested.slow.processes[1].pid, signal.SIGCONT)
        alone = await the_process(tested, "huge")  # beside the photograph that is still being decoded
        await works_on(alone)
        os.kill(alone.pid, signal.SIGSTOP)
        requests.append(asyncio.ensure_future(tested.decode(photos[1])))
        while not tested.slow.queue:
            await asyncio.sleep(0.01)
        os.kill(alone.pid, signal.SIGCONT)
        assert_right(await waiting, huge)
        while tested.slow.queue:
            await asyncio.sleep(0.01)  # the other photograph is still stopped
        os.kill(slow.pid, signal.SIGCONT)
        for found, sent in zip(await asyncio.gather(*requests), [*photos, photos[1]], strict=True):
            assert_right(found, sent)
        assert tested.restarts == 0

    run(lambda: CountedDecoders(slow=2), talk)


@pytest.mark.parametrize(
    ("answer", "length"),
    [(Answer(names=["a"]), 0), (Answer(names=["a"]), 8 * 8 * 12 + 1), (Answer(), 0), (Answer(status=415), 4)],
)
def test_an_answer_that_does_not_fit_its_bytes_is_not_believed(answer: Answer, length: int) -> None:
    with pytest.raises(ValueError, match="an answer"):
        check_answer(body(picture(1)), answer.model_dump_json().encode(), bytes(length))


@pytest.mark.slow
def test_a_service_survives_the_end_of_its_decoders_and_counts_it(tmp_path: Path) -> None:
    with live_service(tmp_path) as live:
        for _ in range(2):
            until(lambda: all(_ready(live)))
            for lane in (live.service.decoders.quick, live.service.decoders.slow):
                os.kill(lane.processes[0].pid, signal.SIGKILL)
            live.assert_right(picture(1), LARGE)
            live.assert_right(picture(2))
        until(lambda: "prunus_decoder_restarts_total 4.0" in live.client.get("/metrics").text)


def _ready(live: Live) -> list[bool]:
    lanes = (live.service.decoders.quick, live.service.decoders.slow)
    return [bool(lane.processes) and lane.processes[0].was_ready for lane in lanes]
