"""The route `POST /predict/{domain}`."""

import time
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import Field, TypeAdapter, ValidationError

from prunus.serving.answers import ErrorAnswer, PredictAnswer
from prunus.serving.refusals import Refusal
from prunus.serving.routes.predicting import predict
from prunus.serving.service import service_of
from prunus.serving.uploads.parsing import FIELD

MAX_TOP = 1000
DEFAULT_TOP = 5
TOP: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1, le=MAX_TOP)])
PARAMETERS = [
    {
        "name": "domain",
        "in": "path",
        "required": True,
        "description": "The domain of the images.",
        "schema": {"type": "string", "title": "Domain"},
    },
    {
        "name": "top",
        "in": "query",
        "required": False,
        "description": "The number of classes to return for each image.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MAX_TOP, "default": DEFAULT_TOP, "title": "Top"},
    },
]
UPLOAD = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "array", "minItems": 1, "items": {"type": "string", "format": "binary"}}},
    "additionalProperties": False,
}
REASONS = {
    404: "Unknown domain.",
    408: "The request was sent too slowly.",
    413: "Too many bytes, images or pixels.",
    415: "Not form data, not a readable image, an animation, or a format that is not supported.",
    421: "A host that the service does not answer to.",
    422: "A damaged image, one that takes too long to decode, or a malformed request.",
    429: "The address has used its quota; the header Retry-After says when to try again.",
    503: "The service is overloaded; the header Retry-After says when to try again.",
}


class DirectRoute(APIRoute):
    """A route that calls its endpoint directly: FastAPI's parsing would take a sixth of the event loop's time."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint."""
        return answer_prediction


def add_prediction(router: APIRouter) -> None:
    """Add the route; its parameters are described here, because FastAPI does not parse them."""
    body = {"required": True, "content": {"multipart/form-data": {"schema": UPLOAD}}}
    router.add_api_route(
        "/predict/{domain}",
        answer_prediction,
        methods=["POST"],
        route_class_override=DirectRoute,
        response_model=PredictAnswer,
        responses={status: {"model": ErrorAnswer, "description": text} for status, text in REASONS.items()},
        openapi_extra={"parameters": PARAMETERS, "requestBody": body},
        operation_id="predict",
        summary="Classify images",
        response_description="The answer.",
    )


async def answer_prediction(request: Request) -> Response:
    """Classify the images of one request, most probable class first."""
    service = service_of(request)
    domain = request.path_params["domain"]
    start = time.perf_counter()
    status = int(HTTPStatus.INTERNAL_SERVER_ERROR)
    images = 0
    try:
        answer = await predict(service, request, domain, _top(request))
        status = int(HTTPStatus.OK)
        images = len(answer.results)
        return Response(answer.model_dump_json(), media_type="application/json")
    except Refusal as refusal:
        status = refusal.status
        raise
    finally:
        known = domain if domain in service.predictor.domains else ""
        service.metrics.answer(known, status, images, time.perf_counter() - start)


def _top(request: Request) -> int:
    text = request.query_params.get("top", str(DEFAULT_TOP))
    try:
        return TOP.validate_python(text)
    except ValidationError as error:
        reason = f"'top': {error.errors()[0]['msg']}, got {text[:100]!r}"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, reason) from None
