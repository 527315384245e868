"""`prunus serve --workers`: processes that share a socket, replace each other and stop together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from prunus.runtime.predictor import Predictor
from tests.makers.live_service import picture, until, upload, write_model
from tests.serving.test_server import _address, _port, running

pytestmark = pytest.mark.slow


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.prunus")


def _workers(process: subprocess.Popen[str]) -> set[int]:
    command = ["ps", "-o", "pid=", "--ppid", str(process.pid)]
    return set(map(int, subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_worker_is_replaced_and_everyone_is_answered_meanwhile(model: Path) -> None:
    expected = Predictor(model).predict(picture(1), "birds")[0].label
    with running(model, "--workers", "2") as (process, line):
        address = _address(line)
        first = _workers(process)
        assert len(first) == 2
        victim = min(first)
        os.kill(victim, signal.SIGKILL)
        until(lambda: not _alive(victim) or victim not in _workers(process))
        for _ in range(10):
            answer = httpx.post(f"{address}/predict/birds", files={"images": picture(1)}, timeout=60)
            assert answer.json()["results"][0]["predictions"][0]["label"] == expected
        until(lambda: len(_workers(process)) == 2)
        second = _workers(process)
        assert first - second == {victim}
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "")
        assert "ended with status -9; another one starts in 1 seconds" in said
        until(lambda: not any(map(_alive, second)))


def test_accepted_requests_are_answered_before_the_workers_stop(model: Path) -> None:
    request = upload(picture(1))
    with running(model, "--workers", "2") as (process, line):
        port = _port(_address(line))
        clients = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(6)]
        for client in clients:
            client.sendall(request[:-10])
        time.sleep(0.5)  # all have been accepted
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        for client in clients:
            client.sendall(request[-10:])
        for client in clients:
            with client:
                assert client.recv(12) == b"HTTP/1.1 200"
        assert process.wait(60) == 0


def test_workers_end_with_the_process_that_started_them(model: Path) -> None:
    with running(model, "--workers", "2") as (process, line):
        _address(line)
        workers = _workers(process)
        assert len(workers) == 2
        assert all(map(_alive, workers))
        process.kill()
        process.wait(60)
        until(lambda: not any(map(_alive, workers)))


def test_a_worker_that_cannot_start_ends_the_service_in_words(model: Path) -> None:
    with running(model, "--workers", "2", "--examples", "nowhere") as (process, line):
        _, said = process.communicate(timeout=60)
        assert (line, process.returncode) == ("", 1)
        assert "the folder of examples nowhere does not exist" in said
