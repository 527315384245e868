"""A real service in a thread, around a small model made by hand, and clients that behave badly."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from PIL import Image

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.images import read_image
from prunus.runtime.predictor import Predictor
from prunus.serving.routes.examples import Examples
from prunus.serving.server import Server, address_of, listen, make_server
from prunus.serving.service import Service, make_service
from prunus.serving.settings import ServeSettings
from tests.makers.graph_bundles import random_bundle, varied_graph

DOMAINS = ("birds", "flowers")


class GatedPredictor(Predictor):
    """A predictor that computes only while its gate is open, and counts the images that it sees."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = threading.Event()
        self.gate.set()
        self.seen = 0

    def logits(self, images: Floats, domain: Any) -> Any:  # noqa: ANN401  # whatever the real one takes and gives
        self.seen += len(images)
        assert self.gate.wait(60)
        return super().logits(images, domain)


@dataclass(frozen=True)
class Live:
    """A service that answers."""

    client: httpx.Client
    predictor: GatedPredictor
    service: Service
    server: Server
    port: int

    def predict(self, *contents: bytes, domain: str = "birds", top: int = 5) -> httpx.Response:
        files = [("images", (f"{number}.png", content)) for number, content in enumerate(contents)]
        return self.client.post(f"/predict/{domain}", params={"top": top}, files=files)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def assert_right(self, *contents: bytes, domain: str = "birds") -> None:
        """Ask, and compare with what a predictor says."""
        answer = self.predict(*contents, domain=domain)
        assert answer.status_code == 200, answer.text
        expected = self.predictor.predict(list(contents), domain)
        for found, wanted in zip(answer.json()["results"], expected, strict=True):
            assert [each["label"] for each in found["predictions"]] == [each.label for each in wanted]
            np.testing.assert_allclose(
                [each["probability"] for each in found["predictions"]], [each.probability for each in wanted], atol=1e-6
            )


def write_model(path: Path) -> Path:
    """Write a model whose answer depends on the picture: random heads would find the same class in all of them."""
    bundle = random_bundle(varied_graph(3), 12, DOMAINS)
    write_bundle(path, bundle)
    preprocess = bundle.manifest.domains[DOMAINS[0]].preprocess
    stored = np.stack([preprocess.store(read_image(picture(seed))) for seed in range(20)])
    arrays = dict(bundle.arrays)
    for domain in DOMAINS:
        logits = Predictor(path).logits(preprocess.normalize(stored), domain)
        scale, bias = 2 / logits.std(0), f"head/{domain}/bias"
        arrays[f"head/{domain}/weight"] = (arrays[f"head/{domain}/weight"] * scale[:, None]).astype(np.float32)
        arrays[bias] = ((arrays[bias] - logits.mean(0)) * scale).astype(np.float32)
    write_bundle(path, Bundle(bundle.manifest, arrays))
    return path


def picture(seed: int, kind: str = "PNG", side: int = 20, **options: Any) -> bytes:  # noqa: ANN401  # Pillow's
    """Draw something that is not what the other seeds give."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (3, 3, 3), np.uint8)).resize((side, side), Image.Resampling.BICUBIC)
    return encode([coarse], kind, **options)


def encode(frames: Sequence[Image.Image], kind: str, **options: Any) -> bytes:  # noqa: ANN401  # Pillow's
    buffer = io.BytesIO()
    more = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    frames[0].save(buffer, kind, **more, **options)
    return buffer.getvalue()


def scan_bomb(side: int, scans: int) -> bytes:
    """Make a JPEG that repeats its last scan, of a few bytes, until it has so many: each one visits all pixels."""
    content = encode([Image.new("L", (side, side), "teal")], "JPEG", progressive=True)
    start = content.rindex(b"\xff\xda")
    return content[:start] + content[start:-2] * (scans + 1 - content.count(b"\xff\xda")) + content[-2:]


@contextmanager
def live_service(folder: Path, examples: Examples | None = None, **settings: Any) -> Iterator[Live]:  # noqa: ANN401
    """Run a service of a small model in a thread; it must stop by itself at the end."""
    with live_model(write_model(folder / "model.prunus"), examples, **settings) as live:
        yield live


@contextmanager
def live_model(path: Path, examples: Examples | None = None, **settings: Any) -> Iterator[Live]:  # noqa: ANN401
    """Run a service of a model file in a thread."""
    predictor = GatedPredictor(path)
    service = make_service(path.name, predictor, ServeSettings(port=0, **settings), examples or {})
    started = threading.Event()
    server = make_server(service, started.set)
    with listen("127.0.0.1", 0) as listener:
        port, address = listener.getsockname()[1], address_of(listener)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert started.wait(60)
            with httpx.Client(base_url=address, timeout=60) as client:
                yield Live(client, predictor, service, server, port)
        finally:
            predictor.gate.set()
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()


def half_request(length: int = 1000) -> bytes:
    """Write the head of an upload, and a little of its body."""
    head = f"POST /predict/birds HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
    return (head + "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n").encode()


def upload(content: bytes, padding: int = 0) -> bytes:
    """Write a complete upload of one file, as sent over a connection."""
    part = b'--b\r\nContent-Disposition: form-data; name="images"; filename="x"\r\n\r\n'
    body = part + bytes(padding) + content + b"\r\n--b--\r\n"
    head = f"POST /predict/birds HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + body


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.02)
    raise AssertionError("the condition was not met within a minute")


def read_all(connection: socket.socket) -> bytes:
    """Read until the service closes the connection."""
    content = bytearray()
    try:
        while part := connection.recv(65536):
            content += part
    except ConnectionResetError:
        pass
    return bytes(content)
