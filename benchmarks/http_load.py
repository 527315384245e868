"""A small HTTP client that keeps connections open and costs little compared with the service it measures."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

BOUNDARY = b"0123456789abcdef"


@dataclass(frozen=True)
class Question:
    """A request, ready to be sent, and the classes and probabilities of the correct answer."""

    request: bytes
    answer: list[tuple[str, float]]


@dataclass
class Outcome:
    """The outcome of many requests."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wrong: int = 0


def form_request(path: str, name: str, *contents: bytes) -> bytes:
    """Return a request that uploads images."""
    head = f'Content-Disposition: form-data; name="images"; filename="{name}"\r\n\r\n'.encode()
    body = b"".join(b"--" + BOUNDARY + b"\r\n" + head + content + b"\r\n" for content in contents)
    body += b"--" + BOUNDARY + b"--\r\n"
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def ask(port: int, questions: list[Question], connections: int) -> tuple[Outcome, float]:
    """Send all requests over several connections, one at a time on each; also return the seconds it took."""
    outcome = Outcome()
    rest = iter(questions)
    start = time.perf_counter()
    await asyncio.gather(*(_connection(port, rest, outcome) for _ in range(connections)))
    return outcome, time.perf_counter() - start


async def _connection(port: int, questions: Iterator[Question], outcome: Outcome) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for question in questions:
        start = time.perf_counter()
        writer.write(question.request)
        status, body = await read_response(reader)
        outcome.seconds.append(time.perf_counter() - start)
        outcome.statuses[status] = outcome.statuses.get(status, 0) + 1
        if status == 200 and not is_right(json.loads(body), question):
            outcome.wrong += 1
    writer.close()
    await writer.wait_closed()


async def read_response(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one response: its status and body."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
    return int(head.split(b" ", 2)[1]), await reader.readexactly(length)


def is_right(answer: dict[str, object], question: Question) -> bool:
    """Return whether an answer is the predictor's."""
    results = answer["results"]
    assert isinstance(results, list)
    predictions = results[0]["predictions"]
    return len(predictions) == len(question.answer) and all(
        prediction["label"] == label and abs(prediction["probability"] - probability) < 1e-5
        for prediction, (label, probability) in zip(predictions, question.answer, strict=True)
    )
