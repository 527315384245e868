"""Too much at once, clients that stall, dribble or hang up: whoever behaves is served all the same."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from prunus.serving.connections import GuardedConnection
from prunus.serving.examples import Example
from tests.makers.live_service import Live, half_request, live_service, picture


def _until(holds: Callable[[], bool]) -> None:
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to pass")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as found:
        yield found


def test_a_full_queue_is_said_at_once_and_what_was_accepted_is_answered(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    with live_service(tmp_path, max_queue=4) as live:
        live.predictor.gate.clear()
        accepted = [pool.submit(live.predict, picture(seed)) for seed in range(4)]
        _until(lambda: live.service.admission.requests == 4)
        for _ in range(20):
            refused = live.predict(picture(9))  # the gate is closed: only a refusal can come
            assert refused.status_code == 503
            assert "the service is busy: 4 requests wait" in refused.json()["error"]
            assert int(refused.headers["retry-after"]) >= 1
        assert live.client.get("/health").status_code == 200
        live.predictor.gate.set()
        assert [each.result().status_code for each in accepted] == [200] * 4
        live.assert_right(picture(9))


def test_a_computation_without_end_is_given_up_and_the_next_one_is_right(tmp_path: Path) -> None:
    with live_service(tmp_path, request_seconds=1.5) as live:
        live.predictor.gate.clear()
        late = live.predict(picture(1))
        assert late.status_code == 503
        assert "it had no answer after 1.5 seconds" in late.json()["error"]
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
        answer = _read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the request was not complete after 0.3 seconds" in answer
        assert live.service.admission.bytes == 0


@pytest.mark.parametrize("start", [b"", b"POST /pre", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_on_which_no_request_comes_is_closed(tmp_path: Path, start: bytes) -> None:
    with live_service(tmp_path, request_seconds=0.3) as live, live.connect() as silent:
        silent.sendall(start)
        assert _read_all(silent) == b""


def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    with live_service(tmp_path) as live, live.connect() as endless:
        endless.sendall(b"GET /health HTTP/1.1\r\nX: ")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(10_000):
                endless.sendall(b"x" * 10_000)
        live.assert_right(picture(1))


def test_who_hangs_up_while_waiting_is_not_computed(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    with live_service(tmp_path, batch_images=1) as live:
        live.predictor.gate.clear()
        first = pool.submit(live.predict, picture(0))
        _until(lambda: live.predictor.seen == 1)
        for _ in range(5):
            with pytest.raises(httpx.ReadTimeout):
                _impatient(live)
        _until(lambda: live.service.admission.requests == 1)
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
        _until(lambda: (live.service.admission.bytes, live.service.admission.requests) == (0, 0))


def test_uploads_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    with live_service(tmp_path, max_held_mb=1, max_upload_mb=0.9) as live, live.connect() as large:
        large.sendall(half_request(850_000) + bytes(700_000))
        _until(lambda: live.service.admission.bytes > 600_000)
        refused = live.predict(bytes(500_000))
        assert refused.status_code == 503
        assert "its clients are sending" in refused.json()["error"]
        live.assert_right(picture(1))


def test_idle_connections_make_room_for_new_ones(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=5) as live, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(live.connect())
        with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
            assert client.get("/health").status_code == 200


LARGE = {"birds": [Example("owl", bytes(1_000_000), "image/png")]}
MUCH = b"GET /examples/birds/0 HTTP/1.1\r\nHost: x\r\n\r\n" * 50


def _never_reads(live: Live) -> socket.socket:
    """Ask for more than fits between here and there, and take none of it."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", live.port))
    connection.sendall(MUCH)
    return connection


def _deaf(live: Live) -> int:
    connections = list(live.server.server_state.connections)
    return sum(isinstance(each, GuardedConnection) and each.flow.write_paused for each in connections)


def _is_cut_off(connection: socket.socket) -> bool:
    try:
        connection.send(b"G")
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_who_asks_and_never_reads_is_cut_off(tmp_path: Path) -> None:
    with live_service(tmp_path, LARGE, request_seconds=1) as live, _never_reads(live) as deaf:
        _until(lambda: _is_cut_off(deaf))
        assert live.client.get("/health").status_code == 200


def test_who_reads_what_was_asked_for_at_once_gets_all_of_it(tmp_path: Path) -> None:
    with live_service(tmp_path, LARGE) as live, live.connect() as late:
        late.sendall(MUCH + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        _until(lambda: _deaf(live) == 1)
        found = _read_all(late)
        assert found.count(b"HTTP/1.1 200 ") == 51
        assert len(found) > 50 * 1_000_000


def test_who_asks_far_ahead_of_the_answers_is_cut_off(tmp_path: Path) -> None:
    with live_service(tmp_path) as live, live.connect() as hasty:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            hasty.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000)
        assert _read_all(hasty).count(b"HTTP/1.1 200 ") < 20_000
        assert live.client.get("/health").status_code == 200


def test_who_never_reads_makes_room_for_who_does(tmp_path: Path) -> None:
    with live_service(tmp_path, LARGE, max_connections=3) as live, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(_never_reads(live))
        _until(lambda: _deaf(live) == 3)
        for _ in range(3):  # each on a connection of its own, long before any clock runs out
            with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
                assert client.get("/health").status_code == 200


def test_connections_that_come_at_the_same_moment_do_not_count_on_the_same_place(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=4) as live, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(live.connect())
        connections = live.server.server_state.connections
        _until(lambda: len(connections) == 4)
        loop = next(each.loop for each in list(connections) if isinstance(each, GuardedConnection))
        loop.call_soon_threadsafe(time.sleep, 0.5)  # whoever comes meanwhile is met in one turn of the loop
        together = [stack.enter_context(live.connect()) for _ in range(4)]
        for each in together:
            each.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert [each.recv(12) for each in together] == [b"HTTP/1.1 200"] * 4
        assert len(connections) == 4


def test_a_connection_too_many_is_told_to_come_later(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=5) as live, ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(live.connect()).sendall(half_request())
        _until(lambda: live.service.admission.bytes == 5 * len(b"--b\r\n"))
        refused = live.client.get("/health")
        assert refused.status_code == 503
        assert "too many connections" in refused.json()["error"]
        stack.close()
        _until(lambda: live.client.get("/health").status_code == 200)


def _read_all(connection: socket.socket) -> bytes:
    found = bytearray()
    try:
        while part := connection.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return bytes(found)


def test_a_large_image_that_is_being_decoded_does_not_stop_the_event_loop(tmp_path: Path) -> None:
    large = picture(1, side=4000, compress_level=0)
    with live_service(tmp_path, max_upload_mb=60) as live:
        finished = threading.Event()

        def upload() -> None:
            live.assert_right(large)
            finished.set()

        thread = threading.Thread(target=upload)
        thread.start()
        _until(lambda: live.service.admission.arriving == 1 or finished.is_set())
        answered = 0
        with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
            while not finished.is_set():
                assert client.get("/health").status_code == 200
                answered += 1
        thread.join()
        assert answered >= 3
