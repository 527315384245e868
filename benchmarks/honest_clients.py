"""Clients that send valid requests at a steady pace, and what they see of a service."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.http_load import Question, form_request, is_right, read_response
from prunus.runtime.predictor import Predictor

GIVE_UP_SECONDS = 40.0  # longer than a service lets any request take
CLOSED = "closed"  # in place of a status: the connection ended without a response
NONE = "no answer"  # in place of a status: the client gave up
HEALTH = Question(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", [])


@dataclass
class Seen:
    """What one kind of client has seen."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    wrong: int = 0

    def add(self, other: Seen) -> None:
        """Add what another client has seen."""
        self.seconds += other.seconds
        self.statuses += other.statuses
        self.wrong += other.wrong

    @property
    def refused(self) -> int:
        """Return the number of requests without the status 200."""
        return sum(count for status, count in self.statuses.items() if status != "200")

    def quantile_ms(self, share: float) -> float:
        """Return a quantile of the latencies in milliseconds."""
        return round(1000 * float(np.quantile(self.seconds, share)), 1)


@dataclass(frozen=True)
class Client:
    """A client that sends its questions in turn, one every `pause` seconds, on one connection or on new ones."""

    questions: Sequence[Question]
    pause: float
    keep: bool

    async def ask(self, port: int, seconds: float) -> Seen:
        """Ask for some seconds.

        A latency counts from the moment at which a request was due: a stall then shows in all requests that it delays.
        """
        seen = Seen()
        line = Line(port)
        start = time.perf_counter()
        for turn in range(int(seconds / self.pause)):
            due = start + turn * self.pause
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if time.perf_counter() > start + seconds:  # too late to send it: it has waited at least this long
                seen.seconds.append(start + seconds - due)
                continue
            question = self.questions[turn % len(self.questions)]
            status, right = await line.ask(question)
            seen.seconds.append(time.perf_counter() - due)
            seen.statuses[status] += 1
            seen.wrong += not right
            if not self.keep:
                await line.close()
        await line.close()
        return seen


class Line:
    """A connection, opened when it is needed; like other clients, it notices between requests that it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, question: Question) -> tuple[str, bool]:
        """Ask one question, and return the status and whether the answer is not wrong."""
        try:
            status, body = await asyncio.wait_for(self._send(question.request), GIVE_UP_SECONDS)
        except (OSError, EOFError):
            await self.close()
            return CLOSED, True
        except asyncio.TimeoutError:  # not the builtin before Python 3.11
            await self.close()
            return NONE, True
        return str(status), status != 200 or not question.answer or is_right(json.loads(body), question)

    async def _send(self, request: bytes) -> tuple[int, bytes]:
        if self._streams is None or self._streams[0].at_eof():
            await self.close()
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        return await read_response(reader)

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None


def photo(seed: int, width: int, height: int, kind: str) -> bytes:
    """Return a smooth image with some noise, about as large as a photo of its size."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    noisy = smooth + rng.integers(-8, 9, smooth.shape, np.int16)
    buffer = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def questions_for(predictor: Predictor, images: Sequence[bytes]) -> list[Question]:
    """Return a request for each domain and image, with the predictor's answer."""
    questions = []
    for image in images:
        for domain in predictor.domains:
            answer = [(guess.label, guess.probability) for guess in predictor.predict(image, domain)[0].predictions]
            questions.append(Question(form_request(f"/predict/{domain}", "image", image), answer))
    return questions


def honest_clients(model: Path) -> dict[str, Client]:
    """Return the clients by name: small images on one connection and on new ones, photos, and health checks."""
    predictor = Predictor(model)
    small = questions_for(predictor, [photo(seed, 72, 72, kind) for seed, kind in enumerate(("JPEG", "PNG", "WEBP"))])
    photos = questions_for(predictor, [photo(seed, 1600, 1200, "JPEG") for seed in range(2)])
    return {
        "small": Client(small, 0.1, keep=True),
        "small, new connection": Client(small, 0.1, keep=False),
        "photo": Client(photos, 0.5, keep=True),
        "health": Client([HEALTH], 0.1, keep=False),
    }


async def ask_all(clients: dict[str, Client], port: int, seconds: float) -> dict[str, Seen]:
    """Let all clients ask at the same time."""
    seen = await asyncio.gather(*(client.ask(port, seconds) for client in clients.values()))
    return dict(zip(clients, seen, strict=True))
