"""A prediction request: a predictor's classes, or the reason why there are none."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import pytest

from benchmarks.attackers import grey_png
from prunus.serving.computing.ranking import Ranking
from prunus.serving.guarding.arrivals import SILENT_SECONDS
from prunus.serving.refusals import Refusal
from prunus.serving.routes import predicting
from prunus.serving.routes.predicting import most_probable
from tests.makers.live_service import Live, half_request, live_service, picture, read_all, until


@pytest.mark.parametrize("domain", ["birds", "flowers"])
def test_a_service_gives_the_classes_that_a_predictor_gives(live: Live, domain: str) -> None:
    live.assert_right(*(picture(seed, kind) for seed, kind in enumerate(("PNG", "JPEG", "WEBP"))), domain=domain)


def test_the_answer_does_not_depend_on_company(live: Live) -> None:
    alone = [live.predict(picture(seed)).json()["results"][0]["predictions"] for seed in range(3)]
    together = [each["predictions"] for each in live.predict(*map(picture, range(3))).json()["results"]]
    for left, right in zip(alone, together, strict=True):
        np.testing.assert_allclose([p["probability"] for p in left], [p["probability"] for p in right], atol=1e-6)


def test_only_the_first_classes_of_a_ranking_are_returned() -> None:
    answers = most_probable(Ranking([2, 0, 1], [0.6, 0.3, 0.1]), ["x", "y", "z"], 2)
    assert [(answer.label, answer.probability) for answer in answers] == [("z", 0.6), ("x", 0.3)]


def test_a_model_that_returns_no_finite_value_is_a_failure_of_the_service() -> None:
    with pytest.raises(Refusal, match="not finite") as refused:
        most_probable(Ranking([0, 1], [float("nan"), float("nan")]), ["x", "y"], 1)
    assert refused.value.status == 500


def test_an_upload_of_undeclared_length_is_stopped_at_the_limit(live: Live) -> None:
    def endless() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="images"; filename="x"\r\n\r\n'
        for _ in range(40):
            yield bytes(50_000)

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    try:
        answer = live.client.post("/predict/birds", content=endless(), headers=headers)
        assert answer.status_code == 413
    except httpx.WriteError:  # the service has answered and need not listen any longer
        pass
    live.assert_right(picture(1))
    assert live.service.admission.bytes == 0


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as threads:
        yield threads


def test_a_full_queue_is_said_at_once_and_what_was_accepted_is_answered(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with live_service(tmp_path, max_queue=4) as live:
        live.predictor.gate.clear()
        accepted = [pool.submit(live.predict, picture(seed)) for seed in range(4)]
        until(lambda: live.service.admission.requests == 4)
        for _ in range(20):
            refused = live.predict(picture(9))  # the gate is closed: only a refusal can come
            assert refused.status_code == 503
            assert "the service is busy: 4 requests are waiting" in refused.json()["error"]
            assert int(refused.headers["retry-after"]) >= 1
        assert live.client.get("/health").status_code == 200
        live.predictor.gate.set()
        assert [each.result().status_code for each in accepted] == [200] * 4
        live.assert_right(picture(9))


def test_a_crowd_of_images_that_take_long_to_decode_refuses_no_small_one(
    tmp_path: Path, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with live_service(tmp_path, max_queue=4) as live:
        slow = live.service.decoders.slow
        send_next = slow.send_next
        monkeypatch.setattr(slow, "send_next", lambda: None)  # images of the slow lane wait
        crowd = [pool.submit(live.predict, grey_png(2000, 1800)) for _ in range(4)]
        until(lambda: len(slow.queue) == 4)
        for seed in range(5):
            live.assert_right(picture(seed))
        until(lambda: any(each.done() for each in crowd))
        monkeypatch.setattr(slow, "send_next", send_next)
        live.assert_right(picture(9, side=900))  # goes to the slow lane, which then continues
        answers = [each.result() for each in crowd]
        assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 503]
        (dropped,) = (answer for answer in answers if answer.status_code == 503)
        assert "4 requests are waiting, and this is the largest" in dropped.json()["error"]
        assert dropped.headers["retry-after"] == "1"
        until(lambda: (live.service.admission.bytes, live.service.admission.requests) == (0, 0))


def test_a_crowd_of_requests_with_many_images_refuses_no_small_one_and_fills_no_batch_beyond_its_limit(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with live_service(tmp_path, max_queue=4, batch_images=4) as live:
        live.predictor.gate.clear()
        crowd = [pool.submit(live.predict, *[grey_png(8, 8)] * 16) for _ in range(4)]
        until(lambda: len(live.service.batcher) == 4)
        assert live.predictor.seen == 4
        small = pool.submit(live.assert_right, picture(1))
        until(lambda: any(each.done() for each in crowd))
        live.predictor.gate.set()
        small.result()
        assert sorted(each.result().status_code for each in crowd) == [200, 200, 200, 503]
        text = live.client.get("/metrics").text
        batches = next(line.split()[1] for line in text.splitlines() if line.startswith("prunus_batch_images_count"))
        assert f'prunus_batch_images_bucket{{le="4.0"}} {batches}' in text
        assert float(batches) >= 13


def test_decoded_images_count_as_held_memory(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with live_service(tmp_path, max_upload_mb=0.004, max_held_mb=0.013) as live:
        images = [grey_png(8, 8)] * 16
        decoded = 16 * 3 * 12 * 12  # one byte for each number of the network's input
        live.predictor.gate.clear()
        first = pool.submit(live.predict, *images)
        until(lambda: live.service.admission.bytes > decoded)
        assert live.service.admission.bytes < decoded + 4000
        refused = live.predict(*images)
        assert refused.status_code == 503
        assert "requests already hold" in refused.json()["error"]
        small = pool.submit(live.assert_right, picture(1))
        until(lambda: len(live.service.batcher) == 1)
        live.predictor.gate.set()
        small.result()
        assert first.result().status_code == 200
        until(lambda: live.service.admission.bytes == 0)


def test_a_request_of_the_largest_size_fits_although_its_images_count_too(tmp_path: Path) -> None:
    with live_service(tmp_path, max_upload_mb=0.004, max_held_mb=0.004) as live:
        live.assert_right(*[grey_png(8, 8)] * 16)


def test_a_computation_without_end_is_given_up_and_the_next_one_is_right(tmp_path: Path) -> None:
    with live_service(tmp_path, request_seconds=1.5) as live:
        live.predictor.gate.clear()
        late = live.predict(picture(1))
        assert late.status_code == 503
        assert "there was no answer after 1.5 seconds" in late.json()["error"]
        live.predictor.gate.set()
        live.assert_right(picture(1))


def test_clients_that_stall_in_the_middle_of_an_upload_keep_nobody_waiting(tmp_path: Path) -> None:
    with live_service(tmp_path, max_queue=2) as live, ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(live.connect()).sendall(half_request())
        for seed in range(10):
            live.assert_right(picture(seed))
        assert live.service.admission.requests == 0


def test_a_client_that_stalls_is_told_so_and_its_connection_ends(tmp_path: Path) -> None:
    with live_service(tmp_path, request_seconds=0.3) as live, live.connect() as slow:
        slow.sendall(half_request())
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the request was not complete after 0.3 seconds" in answer
        assert live.service.admission.bytes == 0


def test_who_hangs_up_while_waiting_is_not_computed(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with live_service(tmp_path, batch_images=1) as live:
        live.predictor.gate.clear()
        first = pool.submit(live.predict, picture(0))
        until(lambda: live.predictor.seen == 1)
        for _ in range(5):
            with pytest.raises(httpx.ReadTimeout):
                _impatient(live)
        until(lambda: live.service.admission.requests == 1)
        live.predictor.gate.set()
        assert first.result().status_code == 200
        live.assert_right(picture(1))
        assert live.predictor.seen - 1 <= 3  # the last valid one, here and in the service: nobody who had gone
        text = live.client.get("/metrics").text
        assert 'prunus_requests_total{domain="birds",status="499"} 5.0' in text


def _impatient(live: Live) -> None:
    with httpx.Client(base_url=live.client.base_url, timeout=0.3) as client:
        client.post("/predict/birds", files={"images": picture(1)})


def test_who_hangs_up_in_the_middle_of_an_upload_leaves_nothing_behind(tmp_path: Path) -> None:
    with live_service(tmp_path) as live:
        for _ in range(30):
            with live.connect() as gone:
                gone.sendall(half_request())
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a hard end
        live.assert_right(picture(1))
        until(lambda: (live.service.admission.bytes, live.service.admission.requests) == (0, 0))


def test_uploads_that_fill_the_memory_while_they_arrive_make_room_for_those_that_are_complete(tmp_path: Path) -> None:
    with live_service(tmp_path, max_held_mb=1, max_upload_mb=0.9) as live, live.connect() as large:
        large.sendall(half_request(850_000) + bytes(700_000))
        until(lambda: live.service.admission.bytes > 600_000)
        time.sleep(2 * SILENT_SECONDS)
        assert live.predict(bytes(500_000)).status_code == 415  # read whole, though no image
        answer = read_all(large)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"its memory is full of requests that are still arriving" in answer
        live.assert_right(picture(1))
        assert live.service.admission.bytes == 0


def test_complete_uploads_that_would_fill_the_memory_are_refused(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with live_service(tmp_path, max_held_mb=1, max_upload_mb=0.9) as live:
        live.predictor.gate.clear()
        accepted = pool.submit(live.predict, picture(1) + bytes(700_000))  # what follows the image is ignored
        until(lambda: live.service.admission.bytes > 600_000)
        refused = live.predict(bytes(500_000))
        assert refused.status_code == 503
        assert "requests already hold" in refused.json()["error"]
        live.predictor.gate.set()
        assert accepted.result().status_code == 200
        live.assert_right(picture(1))


@pytest.mark.parametrize("images", [(bytes(300_000),), (b"small", b"too")])
def test_a_request_that_costs_its_client_little_and_is_refused_cannot_be_repeated_at_full_speed(
    live: Live, monkeypatch: pytest.MonkeyPatch, images: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(predicting, "REFUSED_SECONDS", 0.5)
    start = time.monotonic()
    assert live.predict(*images).status_code == 415
    assert time.monotonic() - start >= 0.5
    monkeypatch.setattr(predicting, "REFUSED_SECONDS", 60.0)
    assert live.predict(b"small").status_code == 415  # at once
    live.assert_right(picture(1, side=400, compress_level=0))  # large, and not refused
