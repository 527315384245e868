"""`POST /predict/{domain}`: what FastAPI describes, and what answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import Field, TypeAdapter, ValidationError

from prunus.serving.answers import ErrorAnswer, PredictAnswer
from prunus.serving.predicting import predict
from prunus.serving.refusals import Refusal
from prunus.serving.service import service_of
from prunus.serving.uploads import FIELD

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
MOST, USUAL = 1000, 5
TOP: TypeAdapter[int] = TypeAdapter(Annotated[int, Field(ge=1, le=MOST)])


def add_prediction(router: APIRouter) -> None:
    """Add the route."""
    router.add_api_route(
        "/predict/{domain}",
        describe_prediction,
        methods=["POST"],
        route_class_override=QuickRoute,
        response_model=PredictAnswer,
        responses=ERRORS,
        openapi_extra=UPLOAD,
        operation_id="predict",
        summary="Classify images",
        response_description="The answer.",
    )


class QuickRoute(APIRoute):
    """A route whose signature is only described: to have FastAPI read it takes a sixth of the event loop's time."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give what answers a request."""
        return answer_prediction


async def describe_prediction(
    domain: Annotated[str, Path(description="Which of the model's domains the images belong to.")],
    top: Annotated[int, Query(ge=1, le=MOST, description="How many classes to give for each image.")] = USUAL,
) -> Response:
    """Classify the images of one request, the most probable class first."""
    raise AssertionError("QuickRoute answers")


async def answer_prediction(request: Request) -> Response:
    """Answer a request, and count it."""
    service, domain = service_of(request), request.path_params["domain"]
    start, status, images = time.perf_counter(), int(HTTPStatus.INTERNAL_SERVER_ERROR), 0
    try:
        answer = await predict(service, request, domain, _top(request))
        status, images = int(HTTPStatus.OK), len(answer.results)
        return Response(answer.model_dump_json(), media_type="application/json")
    except Refusal as refusal:
        status = refusal.status
        raise
    finally:
        known = domain if domain in service.predictor.domains else ""
        service.metrics.answer(known, status, images, time.perf_counter() - start)


def _top(request: Request) -> int:
    given = request.query_params.get("top", str(USUAL))
    try:
        return TOP.validate_python(given)
    except ValidationError as error:
        reason = f"'top': {error.errors()[0]['msg']}, got {given[:100]!r}"
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, reason) from None
