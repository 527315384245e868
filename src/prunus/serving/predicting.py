"""One request for a prediction, from its first byte to its answer."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus

from fastapi import Request
from starlette.requests import ClientDisconnect

from prunus.errors import UnknownNameError
from prunus.images import Floats
from prunus.serving.admission import Load
from prunus.serving.answers import ClassAnswer, ImageAnswer, PredictAnswer
from prunus.serving.patience import Patience
from prunus.serving.pictures import label_of, prepare
from prunus.serving.ranking import Ranking
from prunus.serving.refusals import Refusal, overloaded
from prunus.serving.service import Service
from prunus.serving.uploads import Upload, boundary_of, split_uploads

CLIENT_GONE = 499  # no standard status says it; proxies use this one
GONE = "the client closed the connection"


async def predict(service: Service, request: Request, domain: str, top: int) -> PredictAnswer:
    """Read, decode and classify the images of one request."""
    settings, admission = service.settings, service.admission
    _check_domain(service, domain)
    admission.check()
    boundary = boundary_of(request.headers.get("content-type"))
    slow = f"the request was not complete after {settings.request_seconds:g} seconds"
    late = overloaded(f"it had no answer after {settings.request_seconds:g} seconds")
    with (
        admission.load() as load,
        Patience(settings.request_seconds, Refusal(HTTPStatus.REQUEST_TIMEOUT, slow, hang_up=True)) as patience,
    ):
        body = await _read_body(request, settings.max_upload_bytes, load)
        start = time.perf_counter()
        with admission.place():
            patience.refusal = late
            patience.watch(request.receive, Refusal(CLIENT_GONE, GONE))
            uploads, images = await _decode(service, body, boundary, domain)
            rankings = await asyncio.gather(*service.batcher.submit(images, domain))
        classes = service.predictor.bundle.manifest.domains[domain].classes
        return PredictAnswer(
            domain=domain,
            milliseconds=round(1000 * (time.perf_counter() - start), 3),
            results=[
                ImageAnswer(name=upload.name, predictions=most_probable(ranking, classes, top))
                for upload, ranking in zip(uploads, rankings, strict=True)
            ],
        )


def most_probable(ranking: Ranking, classes: Sequence[str], top: int) -> list[ClassAnswer]:
    """Name the first classes of a ranking."""
    if not math.isfinite(ranking.probabilities[0]):
        raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the model computed numbers that are not finite")
    return [
        ClassAnswer(label=classes[number], probability=probability)
        for number, probability in zip(ranking.classes[:top], ranking.probabilities[:top], strict=True)
    ]


def _check_domain(service: Service, domain: str) -> None:
    try:
        service.predictor.bundle.check_domain(domain)
    except UnknownNameError as error:
        raise Refusal(HTTPStatus.NOT_FOUND, str(error)) from None


async def _read_body(request: Request, max_bytes: int, load: Load) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_large(f"{int(declared):,} bytes", max_bytes)
    chunks: list[bytes] = []
    try:
        async for chunk in request.stream():
            load.add(len(chunk))
            if load.bytes > max_bytes:
                raise _too_large("more bytes", max_bytes)
            chunks.append(chunk)
    except ClientDisconnect:
        raise Refusal(CLIENT_GONE, GONE) from None
    return b"".join(chunks)


def _too_large(got: str, max_bytes: int) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the request has {got}; at most {max_bytes:,} are read: send smaller or fewer images",
    )


async def _decode(service: Service, body: bytes, boundary: bytes, domain: str) -> tuple[list[Upload], list[Floats]]:
    abandoned = threading.Event()
    loop = asyncio.get_running_loop()
    service.admission.decoding += 1
    try:
        return await loop.run_in_executor(service.decoders, _decode_here, service, body, boundary, domain, abandoned)
    finally:
        service.admission.decoding -= 1
        abandoned.set()


def _decode_here(
    service: Service, body: bytes, boundary: bytes, domain: str, abandoned: threading.Event
) -> tuple[list[Upload], list[Floats]]:
    """Cut and decode a body in a thread; nobody waits for the rest once it is abandoned."""
    settings = service.settings
    preprocess = service.predictor.bundle.manifest.domains[domain].preprocess
    uploads = split_uploads(body, boundary, settings.max_images)
    images: list[Floats] = []
    for number, upload in enumerate(uploads):
        if abandoned.is_set():
            break
        images.append(prepare(upload, label_of(number, len(uploads), upload), preprocess, settings.max_pixels))
    return uploads, images
