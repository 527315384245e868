"""The addresses of the service: each finds its part, asks it and gives the answer as JSON, text or a file."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import HTMLResponse

from prunus.serving import predicting
from prunus.serving.answers import DomainsAnswer, ErrorAnswer, HealthAnswer, PredictAnswer
from prunus.serving.documentation import documentation_page
from prunus.serving.page import PAGE_HEADERS, page_file
from prunus.serving.refusals import Refusal
from prunus.serving.service import Service
from prunus.serving.uploads import FIELD
from prunus.version import __version__

router = APIRouter()

UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": [FIELD],
                    "properties": {
                        FIELD: {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}
                    },
                    "additionalProperties": False,
                }
            }
        },
    }
}
REASONS = {
    404: "No such domain.",
    408: "The request came too slowly.",
    413: "Too many bytes, images or pixels.",
    415: "No form data, no image, or an animation.",
    422: "A damaged image, or a request that cannot be read.",
    503: "Too much at once; the header Retry-After says when to try again.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": text} for status, text in REASONS.items()
}

Top = Annotated[int, Query(ge=1, le=1000, description="How many classes to give for each image.")]


@router.post(
    "/predict/{domain}",
    response_model=PredictAnswer,
    responses=ERRORS,
    openapi_extra=UPLOAD,
    summary="Classify images",
    response_description="The answer.",
)
async def predict(
    request: Request,
    domain: Annotated[str, Path(description="Which of the model's domains the images belong to.")],
    top: Top = 5,
) -> Response:
    """Classify the images of one request, the most probable class first."""
    service = _service(request)
    start, status, images = time.perf_counter(), int(HTTPStatus.INTERNAL_SERVER_ERROR), 0
    try:
        answer = await predicting.predict(service, request, domain, top)
        status, images = int(HTTPStatus.OK), len(answer.results)
        return Response(answer.model_dump_json(), media_type="application/json")
    except Refusal as refusal:
        status = refusal.status
        raise
    finally:
        known = domain if domain in service.predictor.domains else ""
        service.metrics.answer(known, status, images, time.perf_counter() - start)


@router.get("/domains", summary="List the domains", response_description="The answer.")
async def domains(request: Request) -> DomainsAnswer:
    """Describe the domains, their classes and which share of the network they use; and the limits of a request."""
    return _service(request).domains


@router.get("/health", summary="Ask whether the service answers", response_description="The answer.")
async def health(request: Request) -> HealthAnswer:
    """Answer that the service is there, and what it serves."""
    service = _service(request)
    return HealthAnswer(status="ok", model=service.name, version=__version__, domains=len(service.predictor.domains))


@router.get(
    "/metrics",
    summary="Read the counters",
    response_description="The counters.",
    responses={200: {"content": {"text/plain": {}}}},
    response_class=Response,
)
async def metrics(request: Request) -> Response:
    """Give the counters in the text format of Prometheus."""
    return Response(_service(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/examples/{domain}/{number}", include_in_schema=False)
async def example(request: Request, domain: str, number: int) -> Response:
    """Give an image to try."""
    found = _service(request).example(domain, number)
    if found is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "there is no such example; GET /domains lists them")
    return Response(found.content, media_type=found.media_type, headers={"Cache-Control": "max-age=3600"})


@router.get("/", include_in_schema=False)
@router.get("/page.css", include_in_schema=False)
@router.get("/page.js", include_in_schema=False)
@router.get("/icon.svg", include_in_schema=False)
async def page(request: Request) -> Response:
    """Give a file of the page."""
    content, media_type = page_file(request.url.path.rpartition("/")[2])
    return Response(content, media_type=media_type, headers=PAGE_HEADERS)


@router.get("/docs", include_in_schema=False)
async def documentation(request: Request) -> HTMLResponse:
    """Give the description of the interface, readable."""
    return HTMLResponse(documentation_page(request.app.openapi()), headers=PAGE_HEADERS)


def _service(request: Request) -> Service:
    service = request.app.state.service
    assert isinstance(service, Service)
    return service
