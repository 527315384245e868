"""Limits of a connection: time, size of a head, requests ahead of responses, and the number of connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prunus.serving.guarding.connections import GuardedConnection, evict_some
from prunus.serving.routes.examples import Example
from tests.makers.live_service import Live, half_request, live_service, picture, read_all, until, upload


@pytest.mark.parametrize("start", [b"", b"POST /pre", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_connection_on_which_no_request_comes_is_closed(tmp_path: Path, start: bytes) -> None:
    with live_service(tmp_path, request_seconds=0.3) as live, live.connect() as silent:
        silent.sendall(start)
        assert read_all(silent) == b""


def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    with live_service(tmp_path) as live, live.connect() as endless:
        endless.sendall(b"GET /health HTTP/1.1\r\nX: ")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(10_000):
                endless.sendall(b"x" * 10_000)
        live.assert_right(picture(1))


def test_idle_connections_make_room_for_new_ones(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=5) as live, ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(live.connect())
        with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
            assert client.get("/health").status_code == 200


LARGE = {"birds": [Example("owl", bytes(1_000_000), "image/png")]}
MUCH = b"GET /examples/birds/0 HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50


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
        until(lambda: _is_cut_off(deaf))
        assert live.client.get("/health").status_code == 200


def test_who_reads_what_was_asked_for_at_once_gets_all_of_it(tmp_path: Path) -> None:
    with live_service(tmp_path, LARGE) as live, live.connect() as late:
        late.sendall(MUCH + b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        until(lambda: _deaf(live) == 1)
        found = read_all(late)
        assert found.count(b"HTTP/1.1 200 ") == 51
        assert len(found) > 50 * 1_000_000


def test_who_asks_far_ahead_of_the_answers_is_cut_off(tmp_path: Path) -> None:
    with live_service(tmp_path) as live, live.connect() as hasty:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            hasty.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000)
        assert read_all(hasty).count(b"HTTP/1.1 200 ") < 20_000
        assert live.client.get("/health").status_code == 200


def test_who_never_reads_makes_room_for_who_does(tmp_path: Path) -> None:
    with live_service(tmp_path, LARGE, max_connections=3) as live, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(_never_reads(live))
        until(lambda: _deaf(live) == 3)
        for _ in range(3):  # each on a connection of its own, long before any clock runs out
            with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
                assert client.get("/health").status_code == 200


def test_connections_that_come_at_the_same_moment_do_not_count_on_the_same_place(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=4) as live, ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(live.connect())
        connections = live.server.server_state.connections
        until(lambda: len(connections) == 4)
        loop = next(each.loop for each in list(connections) if isinstance(each, GuardedConnection))
        loop.call_soon_threadsafe(time.sleep, 0.5)  # whoever comes meanwhile is met in one turn of the loop
        together = [stack.enter_context(live.connect()) for _ in range(4)]
        for each in together:
            each.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert [each.recv(12) for each in together] == [b"HTTP/1.1 200"] * 4
        assert len(connections) == 4


def test_a_connection_too_many_is_told_to_come_later_unless_it_asks_for_the_health(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=5) as live, ExitStack() as stack:
        live.predictor.gate.clear()
        waiting = [stack.enter_context(live.connect()) for _ in range(5)]
        for connection in waiting:
            connection.sendall(upload(picture(1)))
        until(lambda: live.service.admission.requests == 5)
        for _ in range(20):
            with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
                refused = client.get("/domains")
                assert refused.status_code == 503
                assert "too many connections" in refused.json()["error"]
                assert refused.headers["connection"] == "close"
            with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
                assert client.get("/health").status_code == 200
        live.predictor.gate.set()
        assert all(connection.recv(12) == b"HTTP/1.1 200" for connection in waiting)
        stack.close()
        until(lambda: live.client.get("/domains").status_code == 200)


def test_requests_that_are_still_arriving_make_room_and_are_told_why(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=5) as live, ExitStack() as stack:
        slow = [stack.enter_context(live.connect()) for _ in range(30)]
        for connection in slow:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(half_request())
        for seed in range(10):
            with httpx.Client(base_url=live.client.base_url, timeout=60) as client:
                assert client.get("/health").status_code == 200
                assert client.post("/predict/birds", files={"images": picture(seed)}).status_code == 200
        assert len(live.server.server_state.connections) <= 5
        assert b"arrives too slowly" in b"".join(map(_read_now, slow))


def test_a_request_that_arrives_fast_stays_while_slow_ones_go(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=4, min_bytes_per_second=1000) as live, ExitStack() as stack:
        body = upload(picture(1), padding=200_000)
        fast = stack.enter_context(live.connect())
        fast.sendall(body[:100_000])
        until(lambda: live.service.admission.arrivals.bytes > 90_000)
        for _ in range(40):
            stack.enter_context(live.connect()).sendall(half_request())
        fast.sendall(body[100_000:])
        assert fast.recv(12) == b"HTTP/1.1 415"  # complete, though no image


def test_a_body_that_comes_too_slowly_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.serving.guarding.arrivals.GRACE_SECONDS", 0.5)
    with live_service(tmp_path) as live, live.connect() as slow:
        slow.sendall(half_request())
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"at least 1,000 bytes per second are expected" in answer
        assert answer.endswith(b"}")
        until(lambda: live.service.admission.bytes == 0)
        live.assert_right(picture(1))


def test_a_body_that_waits_behind_another_request_is_not_slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prunus.serving.guarding.arrivals.GRACE_SECONDS", 2.0)
    with live_service(tmp_path) as live, live.connect() as client:
        live.predictor.gate.clear()
        second = upload(picture(2))
        client.sendall(upload(picture(1)) + second[:-10])
        time.sleep(1.5)
        live.predictor.gate.set()
        assert _read_response(client).startswith(b"HTTP/1.1 200 ")
        time.sleep(1.2)
        client.sendall(second[-10:])
        assert _read_response(client).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_comes_in_small_parts_wakes_up_its_request_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[int] = []
    on_body = HttpToolsProtocol.on_body

    def counting(connection: HttpToolsProtocol, body: bytes) -> None:
        pieces.append(len(body))
        on_body(connection, body)

    monkeypatch.setattr(HttpToolsProtocol, "on_body", counting)
    request = upload(picture(1))
    start = request.index(b"\r\n\r\n") + 4
    with live_service(tmp_path) as live, live.connect() as client:
        pieces.clear()  # of the check of the server's hooks
        client.sendall(request[:start])
        for offset in range(start, len(request), 100):
            client.sendall(request[offset : offset + 100])
            time.sleep(0.002)
        assert _read_response(client).startswith(b"HTTP/1.1 200 ")
        assert pieces == [len(request) - start]
        large = upload(picture(1), padding=300_000)
        client.sendall(large)
        assert b"HTTP/1.1 415 " in client.recv(65536)
        assert sum(pieces[1:]) == len(large) - large.index(b"\r\n\r\n") - 4
        assert max(pieces) < 300_000  # it is not collected as a whole


def test_a_body_in_very_many_tiny_parts_is_refused_soon(tmp_path: Path) -> None:
    head = b"POST /predict/birds HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    with live_service(tmp_path) as live, live.connect() as client:
        client.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        client.sendall(b"1\r\nx\r\n" * 1001)
        answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"the request arrives in 1,001 parts of 1.0 bytes; send at least 64 bytes at a time" in answer
        live.assert_right(picture(1))


def test_a_length_with_thousands_of_digits_is_no_error_of_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = upload(picture(1))
    head, _, content = body.partition(b"\r\n\r\n")
    start = head.index(b"Content-Length: ") + len(b"Content-Length: ")
    with live_service(tmp_path) as live, live.connect() as client:
        client.sendall(head[:start] + b"0" * 5000 + head[start:] + b"\r\n\r\n" + content)
        assert _read_response(client).startswith(b"HTTP/1.1 200 ")
    assert caplog.text == ""


@dataclass
class FakeConnection:
    """A connection that was last of use at some moment."""

    used_at: float
    evictable: bool = True
    evicted: bool = False

    def useful_at(self, _now: float) -> tuple[float, float]:
        return self.used_at, 0.0

    def evict(self) -> None:
        self.evicted = True


def _evicted(*connections: FakeConnection) -> list[int]:
    assert evict_some(cast(list[GuardedConnection], connections), now=100.0) == any(
        connection.evictable for connection in connections
    )
    return [number for number, connection in enumerate(connections) if connection.evicted]


def test_connections_of_no_use_make_room_together_and_useful_ones_one_at_a_time() -> None:
    idle = [FakeConnection(90 - number) for number in range(40)]
    assert _evicted(*idle) == list(range(24, 40))
    assert _evicted(*(FakeConnection(99.5 + number / 100) for number in range(40))) == [0]
    assert _evicted(FakeConnection(100), FakeConnection(98), FakeConnection(99.9), FakeConnection(97)) == [1, 3]
    assert _evicted(FakeConnection(50, evictable=False), FakeConnection(60), FakeConnection(99.5)) == [1]
    assert _evicted(FakeConnection(50, evictable=False)) == []


def _read_now(connection: socket.socket) -> bytes:
    connection.setblocking(False)
    try:
        return connection.recv(65536)
    except (BlockingIOError, ConnectionResetError):
        return b""


def test_the_connection_that_was_idle_longest_is_closed_first(tmp_path: Path) -> None:
    with live_service(tmp_path, max_connections=3) as live, ExitStack() as stack:
        oldest, middle, newest = [_answered_in_time(live, stack) for _ in range(3)]
        oldest.sendall(HEALTH)  # active again: now the middle one is idle longest
        _read_response(oldest)
        time.sleep(0.2)  # the server notes the end of a response after it has sent it
        _answered(live, stack)
        assert read_all(middle) == b""
        for connection in (oldest, newest):
            connection.sendall(HEALTH)
            assert _read_response(connection).startswith(b"HTTP/1.1 200 ")


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _answered_in_time(live: Live, stack: ExitStack) -> socket.socket:
    """Return an answered connection, later than others by more than the server's clock, which counts milliseconds."""
    connection = _answered(live, stack)
    time.sleep(0.2)
    return connection


def _answered(live: Live, stack: ExitStack) -> socket.socket:
    connection = stack.enter_context(live.connect())
    connection.sendall(HEALTH)
    assert _read_response(connection).startswith(b"HTTP/1.1 200 ")
    return connection


def _read_response(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"}"):
        part = connection.recv(65536)
        assert part, "the service closed the connection"
        received += part
    return received


def _run_in_loop(connection: GuardedConnection, idle: float, late: float = 0) -> float:
    """Check a connection that was idle for so long, with a timer so late, and return the seconds to the next check."""

    async def check() -> float:
        now = connection.loop.time()
        connection._active_at = now - idle
        connection._check_idle(now - late)
        return connection._timer.when() - now

    return asyncio.run_coroutine_threadsafe(check(), connection.loop).result(60)


def _only_connection(live: Live) -> GuardedConnection:
    (connection,) = live.server.server_state.connections
    assert isinstance(connection, GuardedConnection)
    return connection


def test_an_idle_connection_is_closed_after_its_time_and_not_before(tmp_path: Path) -> None:
    with live_service(tmp_path, request_seconds=30) as live, ExitStack() as stack:
        client = _answered(live, stack)
        connection = _only_connection(live)
        assert _run_in_loop(connection, idle=20) == pytest.approx(10, abs=0.1)
        assert not connection._aborted
        _run_in_loop(connection, idle=31)
        assert connection._aborted
        assert read_all(client) == b""


def test_time_in_which_the_process_was_suspended_is_not_idle_time(tmp_path: Path) -> None:
    with live_service(tmp_path, request_seconds=30) as live, ExitStack() as stack:
        _answered(live, stack)
        connection = _only_connection(live)
        assert _run_in_loop(connection, idle=1000, late=10) == pytest.approx(30, abs=0.1)
        assert not connection._aborted
