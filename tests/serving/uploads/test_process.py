"""A decoder process: light, answered in order, and gone when the service is."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prunus.serving.uploads.messages import Answer
from prunus.serving.uploads.process import DecoderProcess, Job
from tests.makers.live_service import picture, until, write_model
from tests.makers.upload_bodies import body, task

HEAVY = ("torch", "fastapi", "starlette", "uvicorn", "prunus.bundle", "prunus.runtime", "prunus.config")


def test_a_decoder_imports_neither_the_model_nor_the_web_server() -> None:
    code = f"import sys, prunus.serving.uploads.decoder; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_requests_are_answered_in_order_and_the_end_is_reported_once() -> None:
    answers: list[Answer] = []
    ends: list[DecoderProcess] = []

    async def talk() -> DecoderProcess:
        process = DecoderProcess(
            lambda _, header, content: answers.append(Answer.model_validate_json(header)), ends.append
        )
        await process.start(1_000_000, 1)
        assert not process.was_ready
        for contents in ([picture(1)], [b"text"], [picture(1), picture(2)]):
            process.send(Job(body(*contents), asyncio.get_running_loop().create_future(), 0.0, 1), task())
        while len(answers) < 3:
            await asyncio.sleep(0.01)
        assert process.was_ready
        os.kill(process.pid, signal.SIGKILL)
        while not ends:
            await asyncio.sleep(0.01)
        process.close()
        await asyncio.sleep(0)
        return process

    process = asyncio.run(talk())
    assert [(answer.status, answer.names) for answer in answers] == [(0, ["0"]), (415, []), (0, ["0", "1"])]
    assert ends == [process]
    assert not process.used_up_its_time
    assert not _is_running(process.pid)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads the list of processes")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_decoder_outlives_its_service(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "prunus", "serve", str(write_model(tmp_path / "model.prunus")), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        service.stdout.readline()
        decoders = _children(service.pid)
        assert len(decoders) == 2
        service.send_signal(number)
        service.wait(60)
    until(lambda: not any(map(_is_running, decoders)))


def _children(pid: int) -> list[int]:
    stats = (path.read_text() for path in Path("/proc").glob("[0-9]*/stat"))
    return [int(stat.split()[0]) for stat in stats if int(stat.rpartition(")")[2].split()[1]) == pid]
