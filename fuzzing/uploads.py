"""Send hostile uploads to a service and check that it refuses them, keeps its memory and still answers correctly.

    python -m fuzzing.uploads [MODEL] [--count 2000] [--seed 0] [--json FILE]

After every ten hostile requests a valid one is sent, and its answer must be the predictor's. No request may end without
an answer or with a status of 500 or more; the connection may be closed after it. Without MODEL, a small one is made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.http_load import Question, form_request, is_right, read_response
from benchmarks.process_family import family, memory_mb
from benchmarks.service_load import running_service
from fuzzing.hostile_uploads import HOSTILE, picture
from fuzzing.models import image_model as small_model
from prunus.bundle.file import write_bundle
from prunus.runtime.predictor import Predictor
from prunus.timing.machine import describe_machine

MAX_GROWTH_MB = 16  # of memory, from a tenth of the requests to the end
MAX_SECONDS = 120  # for any answer


class Client:
    """A client with one connection, opened again when the service has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send one request and return the status and body of the answer."""
        if self._streams is None or self._streams[0].at_eof():
            await self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        return await asyncio.wait_for(read_response(reader), MAX_SECONDS)

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def valid_questions(path: Path) -> list[Question]:
    """Return valid requests for all domains with the predictor's answers."""
    predictor = Predictor(path)
    rng = np.random.default_rng(0)
    questions = []
    for domain in predictor.domains:
        content = picture(rng, "PNG")
        answer = [(guess.label, guess.probability) for guess in predictor.predict(content, domain)[0].predictions]
        questions.append(Question(form_request(f"/predict/{domain}", "x", content), answer))
    return questions


async def attack(port: int, questions: list[Question], indices: range, seed: int) -> Counter[tuple[str, int]]:
    """Send hostile requests with valid ones between them, and count the statuses by kind."""
    client = Client(port)
    statuses = Counter[tuple[str, int]]()
    domains = [question.request.split(b" ")[1].split(b"/")[2] for question in questions]
    for index in indices:
        kind = list(HOSTILE)[index % len(HOSTILE)]
        request = HOSTILE[kind](np.random.default_rng((seed, index))).replace(
            b"{domain}", domains[index % len(domains)]
        )
        status, body = await client.send(request)
        assert status < 500, f"request {index} ({kind}) has the status {status}: {body[:500]!r}"
        if status == 400 and b"Invalid HTTP" in body:
            await client.close()
        else:
            assert status == 200 or set(json.loads(body)) == {"error"}, f"request {index} ({kind}): {body[:500]!r}"
        statuses[kind, status] += 1
        if index % 10 == 9:
            question = questions[index // 10 % len(questions)]
            status, body = await client.send(question.request)
            assert status == 200, f"a valid request after {index} has the status {status}"
            assert is_right(json.loads(body), question), f"a valid request after {index} has a wrong answer"
    await client.close()
    return statuses


def fuzz(path: Path, count: int, seed: int) -> tuple[Counter[tuple[str, int]], dict[str, float]]:
    """Attack a service and check its memory."""
    questions = valid_questions(path)
    first = range(count // 10)
    with running_service(path) as (port, process):
        found = asyncio.run(attack(port, questions, first, seed))
        before = memory_mb(family(process.pid))
        found += asyncio.run(attack(port, questions, range(first.stop, count), seed))
        memory = {"before": round(before, 1), "after": round(memory_mb(family(process.pid)), 1)}
    assert memory["after"] <= before + MAX_GROWTH_MB, f"the service's memory grew: {memory} MB"
    return found, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.model or Path(folder) / "small.prunus"
        if arguments.model is None:
            write_bundle(path, small_model())
        found, memory = fuzz(path, arguments.count, arguments.seed)
    statuses = sorted({status for _, status in found})
    table = Table(title=f"{arguments.count} hostile uploads; memory of the service {memory} MB")
    for name in ("upload", *map(str, statuses)):
        table.add_column(name, justify="left" if name == "upload" else "right")
    for kind in HOSTILE:
        table.add_row(kind, *(str(found[kind, status] or "") for status in statuses))
    Console(width=110).print(table)
    print(describe_machine())
    if arguments.json:
        outcomes = {kind: {str(s): found[kind, s] for s in statuses if found[kind, s]} for kind in HOSTILE}
        result = {"count": arguments.count, "seed": arguments.seed, "outcomes": outcomes, "memory_mb": memory}
        arguments.json.write_text(json.dumps(result | {"machine": describe_machine()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
