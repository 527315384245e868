"""The benchmark that attacks a service: its images are what they claim, and it notices every missed target."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from benchmarks.attackers import flat_webp, grey_png, large_png, run_bmp, text_png
from benchmarks.honest_clients import HEALTH, Client, Seen, honest_clients
from benchmarks.process_family import cpu_seconds, family, memory_mb
from benchmarks.service_attacks import MAX_MEMORY_MB, Memory, Phase, missed_targets, row_of
from benchmarks.service_load import complaint
from tests.makers.live_service import live_service, write_model


def calm(p99_ms: float = 10.0) -> Phase:
    seen = Seen([0.001 * p99_ms] * 100)
    seen.statuses["200"] = 100
    row = row_of(seen)
    return Phase("an attack", {"small": row}, {"small": row}, Memory(80.0, 200.0, 90.0), {})


def test_an_attack_that_nobody_notices_misses_no_target() -> None:
    assert missed_targets({"texts": calm()}) == []


def test_the_documentation_states_the_memory_that_the_benchmark_allows() -> None:
    page = Path(__file__).parents[2] / "docs/serving.md"
    assert f"must stay below {MAX_MEMORY_MB:,} MB" in page.read_text()


@pytest.mark.parametrize(
    ("row", "memory", "said"),
    [
        ({"p99_ms": 50.1}, {}, "texts: small: p99 is 50 ms; at most 50 ms are allowed"),
        ({"refused": 1}, {}, "texts: small: 1 of 100 valid requests were refused: {'200': 100}"),
        ({"wrong": 2}, {}, "texts: small: 2 answers are not the predictor's"),
        ({}, {"peak": MAX_MEMORY_MB + 1.0}, f"texts: memory reached {MAX_MEMORY_MB + 1} MB"),
        ({}, {"after": 97.0}, "texts: memory stayed at 97 MB; before the attack it was 80"),
    ],
)
def test_every_missed_target_is_said(row: dict[str, Any], memory: dict[str, float], said: str) -> None:
    phase = calm()
    during = {"small": replace(phase.during["small"], **row)}
    missed = missed_targets({"texts": replace(phase, during=during, memory_mb=replace(phase.memory_mb, **memory))})
    assert len(missed) == 1
    assert missed[0].startswith(said)


def test_clients_that_are_as_heavy_as_a_crowd_may_be_refused_but_not_answered_wrongly() -> None:
    phase = calm()
    harmed = replace(phase.during["small"], refused=3, p99_ms=9000.0)
    phases = {"crowd": replace(phase, quiet={"photo": phase.quiet["small"]}, during={"photo": harmed})}
    assert missed_targets(phases) == []
    wrong = {"crowd": replace(phases["crowd"], during={"photo": replace(harmed, wrong=1)})}
    assert missed_targets(wrong) == ["crowd: photo: 1 answers are not the predictor's"]


def test_a_slow_machine_is_allowed_three_times_its_quiet_latency() -> None:
    phase = calm(p99_ms=100.0)
    for p99_ms, count in ((299.0, 0), (301.0, 1)):
        during = {"small": replace(phase.during["small"], p99_ms=p99_ms)}
        assert len(missed_targets({"texts": replace(phase, during=during)})) == count


def test_a_service_with_fewer_answers_than_before_fails() -> None:
    found: dict[str, object] = {"speed_up": 1.6, "load_before": 0.0, "of_before": {"many at a time": 0.84}}
    assert str(complaint(found)).startswith("0.84 times the answers per second of before; expected 0.85")
    assert complaint(found | {"of_before": {"many at a time": 0.85}}) is None


def test_the_images_of_the_attacks_are_what_they_claim() -> None:
    bmp = run_bmp()
    assert len(bmp) == 68
    with Image.open(io.BytesIO(bmp)) as image:
        assert (image.format, image.size) == ("BMP", (31_999_999, 1))
    with Image.open(io.BytesIO(text_png())) as image:
        assert image.size == (8, 8)
        assert sum(len(str(text)) for text in image.info.values()) == 60 * 2**20
    with Image.open(io.BytesIO(grey_png(4000, 3600))) as image:
        assert (image.mode, image.size) == ("L", (4000, 3600))
    assert len(grey_png(4000, 3600)) < 15_000
    with Image.open(io.BytesIO(large_png(80, 40))) as image:
        assert (image.mode, image.size) == ("RGBA", (80, 40))
        image.load()
    assert len(flat_webp(5656, 5656)) == 88
    with Image.open(io.BytesIO(flat_webp(80, 40))) as image:
        assert (image.format, image.mode, image.size, image.getexif()[0x0112]) == ("WEBP", "RGBA", (80, 40), 6)
        assert image.getcolors() == [(80 * 40, (255, 0, 0, 128))]


def test_an_honest_client_counts_a_stall_in_every_request_that_it_delays(tmp_path: Path) -> None:
    async def stalled() -> Seen:
        first = True

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal first
            while await reader.readuntil(b"\r\n\r\n"):
                await asyncio.sleep(0.2 * first)
                first = False
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        seen = await Client([HEALTH], 0.02, keep=True).ask(server.sockets[0].getsockname()[1], 0.4)
        server.close()
        return seen

    seen = asyncio.run(stalled())
    assert len(seen.seconds) == 20
    assert sum(seconds > 0.09 for seconds in seen.seconds) >= 5  # those that were due in the first half of the stall


def test_honest_clients_get_right_answers_and_notice_wrong_ones(tmp_path: Path) -> None:
    with live_service(tmp_path) as live:
        clients = honest_clients(write_model(tmp_path / "same.prunus"))
        seen = asyncio.run(clients["small"].ask(live.port, 0.3))
        assert (set(seen.statuses), seen.refused, seen.wrong) == ({"200"}, 0, 0)
        swapped = [replace(question, answer=list(reversed(question.answer))) for question in clients["small"].questions]
        seen = asyncio.run(replace(clients["small"], questions=swapped).ask(live.port, 0.3))
        assert seen.wrong == seen.statuses["200"] > 0


# It works for longer than the test asks: /proc counts whole ticks, apart for user and system, and leaves out the rest.
CHILD = """
import time
held = b"x" * 50_000_000
while time.process_time() < 0.5: pass
time.sleep(60)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_the_memory_and_time_of_a_family_include_its_children() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD]) as process:
        try:
            deadline = time.monotonic() + 30
            while memory_mb(family(process.pid)) - memory_mb([process.pid]) < 50 and time.monotonic() < deadline:
                time.sleep(0.05)
            while cpu_seconds(family(process.pid)) < 0.3 and time.monotonic() < deadline:
                time.sleep(0.05)
            pids = family(process.pid)
            assert len(pids) == 2
            assert memory_mb(pids) - memory_mb([process.pid]) > 50
            assert cpu_seconds(pids) >= 0.3
        finally:
            for pid in reversed(family(process.pid)):
                subprocess.run(["kill", str(pid)], check=True)
