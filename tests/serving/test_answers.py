"""What a service answers: a predictor's classes to whoever asks properly, one clear sentence to whoever does not."""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from prunus.errors import PrunusError, UnknownNameError
from prunus.serving.decoding import SMALL_BYTES, SMALL_PIXELS, Body, NotSmall, decode_small
from prunus.serving.examples import Example
from prunus.serving.settings import parse_settings
from tests.makers.live_service import Live, encode, live_service, picture, scan_bomb

EXAMPLES = {"birds": [Example("owl", picture(1), "image/png")]}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    limits = {"max_images": 3, "max_upload_mb": 1, "max_megapixels": 1}
    with live_service(tmp_path_factory.mktemp("live"), EXAMPLES, **limits) as found:
        yield found


@pytest.mark.parametrize("domain", ["birds", "flowers"])
def test_a_service_gives_the_classes_that_a_predictor_gives(live: Live, domain: str) -> None:
    live.assert_right(*(picture(seed, kind) for seed, kind in enumerate(("PNG", "JPEG", "WEBP"))), domain=domain)


def test_as_many_classes_are_given_as_were_asked_for(live: Live) -> None:
    counts = [len(live.predict(picture(0), top=top).json()["results"][0]["predictions"]) for top in (1, 2, 3, 1000)]
    assert counts == [1, 2, 3, 3]


def test_names_of_files_come_back_in_order(live: Live) -> None:
    files = [("images", ("../b.png", picture(1))), ("images", ("ä<b>.png", picture(2)))]
    answer = live.client.post("/predict/birds", files=files)
    assert [each["name"] for each in answer.json()["results"]] == ["../b.png", "ä<b>.png"]


def test_requests_of_different_domains_that_come_together_are_computed_together(tmp_path: Path) -> None:
    with live_service(tmp_path, batch_ms=500) as live:
        live.predictor.gate.clear()
        first = threading.Thread(target=live.assert_right, args=(picture(0),))
        first.start()
        _until(lambda: live.predictor.seen == 1)
        others = [
            threading.Thread(target=live.assert_right, args=(picture(seed),), kwargs={"domain": domain})
            for seed, domain in enumerate(("birds", "flowers", "birds", "flowers"), 1)
        ]
        for thread in others:
            thread.start()
        _until(lambda: len(live.service.batcher) == 4)
        live.predictor.gate.set()
        for thread in (first, *others):
            thread.join()
        lines = live.client.get("/metrics").text.splitlines()
        assert "prunus_batch_images_count 2.0" in lines
        assert "prunus_batch_images_sum 5.0" in lines


def _until(holds: Callable[[], bool]) -> None:
    waiting = threading.Event()
    for _ in range(3000):
        if holds():
            return
        waiting.wait(0.02)
    raise AssertionError("it did not come to pass")


def test_domains_are_listed_with_the_share_of_kernels_that_each_uses(live: Live) -> None:
    answer = live.client.get("/domains").json()
    masks = live.predictor.bundle.layer_masks()
    total = sum(mask.shape[1] * mask.shape[2] for mask in masks.values())
    for number, domain in enumerate(answer["domains"]):
        assert domain["usage"] == pytest.approx(sum(int(mask[number].sum()) for mask in masks.values()) / total)
        assert domain["classes"] == ["x", "y", "z"]
    assert [domain["name"] for domain in answer["domains"]] == ["birds", "flowers"]
    assert answer["usage"] == pytest.approx(sum(int(mask.any(0).sum()) for mask in masks.values()) / total)
    assert answer["limits"] == {"upload_bytes": 1_000_000, "images": 3, "pixels": 1_000_000}


def test_examples_are_given_by_number_and_nothing_else_is(live: Live) -> None:
    birds, flowers = live.client.get("/domains").json()["domains"]
    assert birds["examples"] == [{"name": "owl", "path": "examples/birds/0"}]
    assert flowers["examples"] == []
    assert live.client.get("/examples/birds/0").content == picture(1)
    for path in ("birds/1", "birds/-1", "flowers/0", "..%2F..%2Fetc/0", "birds/..%2F0", "birds/x"):
        answer = live.client.get(f"/examples/{path}")
        assert answer.status_code in (404, 422), path
        assert set(answer.json()) == {"error"}


def test_health_and_metrics_tell_what_happened(live: Live) -> None:
    assert live.client.get("/health").json()["status"] == "ok"
    before: list[str] = []
    after: list[str] = []
    for seen in (before, after):
        seen += [line for line in live.client.get("/metrics").text.splitlines() if line.startswith("prunus_requests_t")]
        live.predict(picture(0), domain="flowers")
        live.predict(picture(0), domain="nobody")
    assert before != after
    assert not any("nobody" in line for line in after)


@pytest.mark.parametrize("path", ["/", "/health"])
def test_who_only_wants_to_know_whether_it_answers_gets_the_head(live: Live, path: str) -> None:
    head, whole = live.client.head(path), live.client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == whole.headers[name]


def test_what_describes_the_interface_loads_nothing_from_elsewhere(live: Live) -> None:
    for path in ("/", "/docs", "/page.css", "/page.js"):
        answer = live.client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in answer.text
    schema = live.client.get("/openapi.json").json()
    assert list(schema["paths"]) == ["/predict/{domain}", "/domains", "/health", "/metrics"]
    assert schema["paths"]["/predict/{domain}"]["post"]["parameters"][0]["schema"]["enum"] == ["birds", "flowers"]


def test_a_photograph_with_a_preview_inside_is_no_animation(live: Live) -> None:
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    live.assert_right(encode(frames, "MPO"))


def test_a_small_file_with_many_pixels_is_answered_too(live: Live) -> None:
    teal = encode([Image.new("RGB", (900, 900), "teal")], "PNG")
    assert len(teal) < SMALL_BYTES < 900 * 900 > SMALL_PIXELS
    live.assert_right(teal, picture(1))


def test_a_progressive_photograph_is_answered_but_not_where_others_wait_for_it(live: Live) -> None:
    progressive = picture(1, "JPEG", side=64, progressive=True)
    live.assert_right(progressive)
    live.assert_right(scan_bomb(300, 100), picture(1))
    for content, small in ((progressive, False), (picture(1, "JPEG", side=64), True)):
        assert _is_small(live, content) is small


def _is_small(live: Live, content: bytes) -> bool:
    form = b'--b\r\nContent-Disposition: form-data; name="images"; filename="x"\r\n\r\n' + content + b"\r\n--b--\r\n"
    preprocess = live.predictor.bundle.manifest.domains["birds"].preprocess
    try:
        decode_small(Body(form, b"b", preprocess, live.service.settings))
    except NotSmall:
        return False
    return True


def _frames() -> list[Image.Image]:
    return [Image.new("RGB", (8, 8), colour) for colour in ("red", "green")]


def _bomb(width: int, height: int) -> bytes:
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(10_000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("contents", "status", "said"),
    [
        ([b"just text"], 415, "the image ('0.png') is no image that can be read; send one of JPEG, PNG"),
        ([b""], 422, "is empty (0 bytes)"),
        ([picture(1)[:60]], 422, "cannot read the image ('0.png')"),
        ([picture(1, "JPEG", side=64)[:-400]], 422, "cannot read the image ('0.png'): image file is truncated"),
        ([encode(_frames(), "GIF")], 415, "is no image that can be read"),
        ([encode(_frames(), "PNG")], 415, "is an animation; send one of its frames"),
        ([encode(_frames(), "WEBP")], 415, "is an animation; send one of its frames"),
        ([_bomb(2000, 2000)], 413, "has 2000 x 2000 pixels; at most 1,000,000 are read"),
        ([_bomb(60_000, 60_000)], 413, "far more pixels"),
        ([scan_bomb(300, 101)], 422, "the image ('0.png') paints its pixels in 101 scans; at most 100 are read"),
        ([scan_bomb(1000, 21)], 422, "paints its pixels in 21 scans; at most 20 are read: save it again"),
        ([picture(1)[:-1]], 422, "cannot read the image ('0.png'): it ends too early"),
        ([picture(1)[:-12]], 422, "cannot read the image ('0.png'): it ends too early"),
        ([picture(1), b"text"], 415, "image 2 ('1.png') is no image"),
        ([picture(1)] * 4, 413, "a request may hold 3 images, got more"),
        ([bytes(1_100_000)], 413, "at most 1,000,000 are read"),
    ],
)
def test_what_is_no_usable_image_is_refused_with_the_reason(
    live: Live, contents: list[bytes], status: int, said: str
) -> None:
    answer = live.predict(*contents)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert said in answer.json()["error"]
    live.assert_right(picture(2))


@pytest.mark.parametrize(
    ("path", "options", "status", "said"),
    [
        ("/predict/bird", {}, 404, "unknown domain 'bird'; did you mean 'birds'? known: birds, flowers"),
        (f"/predict/{'b' * 3000}", {}, 404, f"unknown domain '{'b' * 100}'; known: birds, flowers"),
        ("/predict/birds?top=0", {}, 422, "'top': Input should be greater than or equal to 1, got '0'"),
        ("/predict/birds?top=many", {}, 422, "'top'"),
        ("/predict/birds", {"json": {}}, 415, "the content type is 'application/json'; send image files as multipart"),
        ("/predict/birds", {"content": b""}, 415, "the content type is none"),
        ("/predict/birds", {"files": {"picture": picture(1)}}, 422, "unknown form field 'picture'; send image files"),
        ("/predict/birds", {"content": b"", "headers": {"Content-Type": "multipart/form-data"}}, 422, "boundary"),
        (
            "/predict/birds",
            {"content": b"--b\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
            422,
            "the form data cannot be read: it ends too early",
        ),
        (
            "/predict/birds",
            {"content": b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
            422,
            "there is no image in the request",
        ),
        ("/nowhere", {}, 404, "there is nothing at this address; see /docs"),
        ("/health", {}, 405, "POST is not possible here; see /docs"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_why(
    live: Live, path: str, options: dict[str, object], status: int, said: str
) -> None:
    answer = live.client.request("POST", path, **options)  # type: ignore[arg-type]  # options are httpx's own
    assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert said in answer.json()["error"]


def test_an_upload_of_undeclared_length_is_stopped_at_the_limit(live: Live) -> None:
    def endless() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="images"; filename="x"\r\n\r\n'
        for _ in range(40):
            yield bytes(50_000)

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    try:
        answer = live.client.post("/predict/birds", content=endless(), headers=headers)
        assert answer.status_code == 413
    except httpx.WriteError:  # the service has answered and need not listen any longer
        pass
    live.assert_right(picture(1))
    assert live.service.admission.bytes == 0


def test_the_answer_does_not_depend_on_company(live: Live) -> None:
    alone = [live.predict(picture(seed)).json()["results"][0]["predictions"] for seed in range(3)]
    together = [each["predictions"] for each in live.predict(*map(picture, range(3))).json()["results"]]
    for left, right in zip(alone, together, strict=True):
        np.testing.assert_allclose([p["probability"] for p in left], [p["probability"] for p in right], atol=1e-6)


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ({"max_imges": 1}, UnknownNameError, "unknown setting 'max_imges'; did you mean 'max_images'?"),
        ({"max_images": 0}, PrunusError, "setting 'max_images': Input should be greater than or equal to 1, got 0"),
        ({"request_seconds": 0.01}, PrunusError, "greater than or equal to 0.05, got 0.01"),
        ({"max_upload_mb": 1e-9}, PrunusError, "greater than or equal to 0.001, got 1e-09"),
        ({"max_megapixels": 1e-9}, PrunusError, "greater than or equal to 0.001, got 1e-09"),
        ({"port": 70_000}, PrunusError, "setting 'port'"),
        ({"batch_ms": "slow"}, PrunusError, "setting 'batch_ms'"),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, object], kind: type[PrunusError], said: str) -> None:
    with pytest.raises(kind) as error:
        parse_settings(values)
    assert said in str(error.value)
