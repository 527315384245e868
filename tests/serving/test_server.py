"""`prunus serve` as a process: it says where it is, ends well on a signal, and fails in one line."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from prunus.runtime.predictor import Predictor
from prunus.serving.server import skip_loaded_objects
from tests.makers.live_service import half_request, live_service, picture, write_model


@contextmanager
def running(model: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "prunus", "serve", str(model), "--port", "0", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env={**os.environ, "COLUMNS": "40"}, **pipes) as process:  # type: ignore[call-overload]
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


def _address(line: str) -> str:
    found = re.fullmatch(r"Serving model.prunus at (http://127\.0\.0\.1:\d+) \(stop with Ctrl-C\)\n", line)
    assert found, line
    return found[1]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model.prunus")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_a_quiet_service_with_success(model: Path, name: str) -> None:
    with running(model) as (process, line):
        address = _address(line)
        assert httpx.post(f"{address}/predict/birds", files={"images": b"no image"}).status_code == 415
        assert httpx.get(f"{address}/health").json()["domains"] == 2
        process.send_signal(signal.Signals[name])
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0


@pytest.mark.slow
def test_a_request_in_flight_is_answered_before_the_service_ends(model: Path) -> None:
    content = picture(1)
    expected = Predictor(model).predict(content, "birds")[0].label
    head = b'Content-Disposition: form-data; name="images"; filename="x"\r\n\r\n'
    rest = head + content + b"\r\n--b--\r\n"
    with running(model) as (process, line):
        port = _port(_address(line))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(half_request(len(b"--b\r\n" + rest)))
            assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200  # the upload has arrived too
            process.send_signal(signal.SIGTERM)
            _wait_until_nobody_listens(port)
            client.sendall(rest)
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert f'[{{"label":"{expected}"'.encode() in answer
        assert process.wait(60) == 0


@pytest.mark.slow
def test_with_few_file_descriptors_idle_connections_make_room_and_everyone_is_answered(model: Path) -> None:
    serve = f"ulimit -n 80; exec {sys.executable} -m prunus serve {model} --port 0"
    with (
        subprocess.Popen(["bash", "-c", serve], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        ExitStack() as stack,
    ):
        assert process.stdout is not None
        stack.callback(process.kill)
        address = _address(process.stdout.readline())
        for _ in range(3):
            for _ in range(120):
                stack.enter_context(socket.create_connection(("127.0.0.1", _port(address)), timeout=60))
            for seed in range(5):
                assert httpx.get(f"{address}/health").status_code == 200
                answer = httpx.post(f"{address}/predict/birds", files={"images": picture(seed)})
                assert answer.status_code == 200
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0
        assert re.fullmatch(
            r"the limit of 80 open files \(ulimit -n\) allows \d+ connections at the same time; "
            r"max_connections is 512\n",
            said,
        )


def _wait_until_nobody_listens(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return
        threading.Event().wait(0.05)
    raise AssertionError("the service still listens")


def _complaint(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "prunus", "serve", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_a_header_of_the_client_does_not_change_the_address_that_its_quotas_count_for(tmp_path: Path) -> None:
    with live_service(tmp_path) as live:
        assert live.client.get("/health", headers={"X-Forwarded-For": "203.0.113.7"}).status_code == 200
        assert not isinstance(live.server.config.loaded_app, ProxyHeadersMiddleware)


def test_the_garbage_collector_skips_what_is_loaded_while_a_service_runs() -> None:
    before = gc.get_freeze_count()
    skip_loaded_objects()
    try:
        assert gc.get_freeze_count() > before + 10_000
        assert len(gc.get_objects()) < 1000
    finally:
        gc.unfreeze()


def test_a_port_in_use_is_said_in_one_line(model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        said = _complaint(model, "--port", str(port))
    remedy = "choose another port with --port (0 picks a free one)"
    assert said.strip() == f"error: cannot listen on 127.0.0.1:{port}: Address already in use; {remedy}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone.prunus"], "gone.prunus"),
        (["bad.prunus"], "bad.prunus"),
        (["model.prunus", "--host", "no.such.host.invalid"], "choose another address with --host"),
        (["model.prunus", "--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid:8000"),
        (["model.prunus", "--set", "max_imges=3"], "unknown setting 'max_imges'; did you mean 'max_images'?"),
        (["model.prunus", "--set", "max_images"], "expected key=value"),
        (["model.prunus", "--port", "-1"], "setting 'port'"),
        (["model.prunus", "--examples", "nowhere"], "the folder of examples nowhere does not exist"),
        (["model.prunus", "--examples", "."], ". contains no example images; put them into folders"),
        (["model.prunus", "--examples", "demo:"], "demo: contains no example images"),
        (["model.prunus", "--examples", "broken"], "cannot read the example 'owl'"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    from prunus.cli.app import main

    monkeypatch.chdir(model.parent)
    Path("bad.prunus").write_bytes(b"no model")
    Path("broken/birds").mkdir(parents=True)
    Path("broken/birds/owl.png").write_bytes(picture(1)[:50])
    monkeypatch.setattr(sys, "argv", ["prunus", "serve", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    found = capsys.readouterr()
    assert (found.out, found.err.count("\n")) == ("", 1)
    assert said in found.err


def test_a_missing_package_is_said_with_its_extra(model: Path) -> None:
    blocked = "import sys; sys.modules['fastapi'] = None; "
    call = f"sys.argv = ['prunus', 'serve', {str(model)!r}]; from prunus.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", blocked + call], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        "the service needs fastapi, which is not installed; install it with: pip install 'prunus[serve]'" in done.stderr
    )
