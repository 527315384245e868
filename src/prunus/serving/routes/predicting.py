"""Answer one prediction request, from its first byte to the response."""

import asyncio
import math
import time
from collections.abc import Sequence
from http import HTTPStatus

from fastapi import Request
from starlette.requests import ClientDisconnect

from prunus.errors import UnknownNameError
from prunus.serving.answers import ClassAnswer, ImageAnswer, PredictAnswer
from prunus.serving.computing.ranking import Job, Ranking
from prunus.serving.guarding.admission import Load
from prunus.serving.guarding.deadline import Deadline
from prunus.serving.guarding.headers import declared_bytes
from prunus.serving.guarding.quotas import address_of
from prunus.serving.refusals import Refusal, overloaded
from prunus.serving.service import Service
from prunus.serving.uploads.decoders import SMALL_BYTES, expected_seconds
from prunus.serving.uploads.messages import Body, Decoded
from prunus.serving.uploads.parsing import boundary_of, count_parts

CLIENT_GONE = 499  # not standard, but used by proxies
GONE = "the client closed the connection"
REFUSED_SECONDS = 0.1  # before a large request, or one of several images, is refused: it costs its client too little
MAX_NAME = 100  # characters of an unknown domain that are repeated


async def predict(service: Service, request: Request, domain: str, top: int) -> PredictAnswer:
    """Read, decode and classify the images of one request."""
    try:
        return await _predict(service, request, domain, top)
    except Refusal as refusal:
        if not refusal.delay:
            raise
        late = refusal.with_traceback(None)
        late.__context__ = None  # like the traceback, it would keep the request in memory
    await asyncio.sleep(late.delay)
    raise late


async def _predict(service: Service, request: Request, domain: str, top: int) -> PredictAnswer:
    settings, admission = service.settings, service.admission
    _check_domain(service, domain)
    boundary = boundary_of(request.headers.get("content-type"))
    slow = f"the request was not complete after {settings.request_seconds:g} seconds"
    late = overloaded(f"there was no answer after {settings.request_seconds:g} seconds")
    with (
        admission.load(address_of(request.client)) as load,
        Deadline(settings.request_seconds, Refusal(HTTPStatus.REQUEST_TIMEOUT, slow, hang_up=True)) as deadline,
    ):
        load.expect(expected_seconds(_declared_bytes(request, settings.max_upload_bytes)))
        admission.check(load)
        content = await _read_body(request, settings.max_upload_bytes, load)
        start = time.perf_counter()
        load.expect(_expected_seconds(service, content, boundary))
        load.drop = deadline.interrupt
        with admission.slot(load):
            deadline.refusal = late
            deadline.watch(request.receive, Refusal(CLIENT_GONE, GONE))
            entry = service.predictor.bundle.manifest.domains[domain]
            body = Body(content, boundary, entry.preprocess, request.client)
            decoded = await _decode(service, load, body)
            load.drop = deadline.interrupt
            ranked = await service.batcher.submit(Job(decoded, domain, request.client, load.keep))
        return PredictAnswer(
            domain=domain,
            milliseconds=round(1000 * (time.perf_counter() - start), 3),
            results=[
                ImageAnswer(name=name, predictions=most_probable(ranking, entry.classes, top))
                for name, ranking in zip(ranked.names, ranked.rankings, strict=True)
            ],
        )


def most_probable(ranking: Ranking, classes: Sequence[str], top: int) -> list[ClassAnswer]:
    """Return the first classes of a ranking with their names."""
    if not math.isfinite(ranking.probabilities[0]):
        raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "the model returned values that are not finite")
    return [
        ClassAnswer(label=classes[number], probability=probability)
        for number, probability in zip(ranking.classes[:top], ranking.probabilities[:top], strict=True)
    ]


def _check_domain(service: Service, domain: str) -> None:
    known = service.predictor.domains
    if domain not in known:
        raise Refusal(HTTPStatus.NOT_FOUND, str(UnknownNameError("domain", domain[:MAX_NAME], known)))


def _expected_seconds(service: Service, content: bytes, boundary: bytes) -> float:
    """Return what a request will probably take; large ones are not searched for images, because that takes long too."""
    images = count_parts(content, boundary) if len(content) <= SMALL_BYTES else 1
    compute = service.batcher.image_seconds * min(images, service.settings.max_images)
    return expected_seconds(len(content)) + compute


def _declared_bytes(request: Request, max_bytes: int) -> int:
    declared = declared_bytes(request.headers.get("content-length", "").encode("latin-1"))
    if declared > max_bytes:
        raise _too_large(f"{declared:,} bytes", max_bytes)
    return declared


async def _read_body(request: Request, max_bytes: int, load: Load) -> bytes:
    content = bytearray()  # one block that grows: many small ones would stay in the process after the request
    try:
        async for chunk in request.stream():
            content += chunk
            if len(content) > max_bytes:
                raise _too_large("more bytes", max_bytes)
    except ClientDisconnect:
        raise Refusal(CLIENT_GONE, GONE) from None
    load.add(len(content))  # while it arrived, its connection counted its bytes
    return bytes(content)


def _too_large(got: str, max_bytes: int) -> Refusal:
    return Refusal(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the request has {got}; at most {max_bytes:,} are allowed: send smaller or fewer images",
    )


async def _decode(service: Service, load: Load, body: Body) -> Decoded:
    seconds = load.seconds
    try:
        decoded = await service.decoders.decode(body, lambda more: load.expect(seconds + more), load.keep)
    except Refusal:
        if len(body.content) > SMALL_BYTES or count_parts(body.content, body.boundary) > 1:
            await asyncio.sleep(REFUSED_SECONDS)
        raise
    load.arrived()
    load.expect(len(decoded.images) * service.batcher.image_seconds)
    load.add(decoded.bytes)
    return decoded
