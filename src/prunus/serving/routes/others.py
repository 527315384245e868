"""The routes of the service other than predictions."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from prunus.serving.answers import DomainsAnswer, HealthAnswer
from prunus.serving.page import PAGE_HEADERS, page_file
from prunus.serving.refusals import Refusal
from prunus.serving.routes.documentation import documentation_page
from prunus.serving.routes.prediction import add_prediction
from prunus.serving.service import service_of
from prunus.version import __version__

router = APIRouter()
add_prediction(router)


@router.get("/domains", summary="List the domains", response_description="The answer.")
async def domains(request: Request) -> DomainsAnswer:
    """Return the domains with their classes and their share of the network, and the limits of a request."""
    return service_of(request).domains


@router.head("/health", include_in_schema=False)
@router.get("/health", summary="Check the service", response_description="The answer.")
async def health(request: Request) -> HealthAnswer:
    """Return the status of the service and the model that it serves."""
    service = service_of(request)
    return HealthAnswer(status="ok", model=service.name, version=__version__, domains=len(service.predictor.domains))


@router.get(
    "/metrics",
    summary="Read the metrics",
    response_description="The metrics.",
    responses={200: {"content": {"text/plain": {}}}},
    response_class=Response,
)
async def metrics(request: Request) -> Response:
    """Return the metrics in the text format of Prometheus."""
    return Response(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/examples/{domain}/{number}", include_in_schema=False)
async def example(request: Request, domain: str, number: int) -> Response:
    """Return an example image."""
    image = service_of(request).example(domain, number)
    if image is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "unknown example; GET /domains lists all examples")
    return Response(image.content, media_type=image.media_type, headers={"Cache-Control": "max-age=3600"})


@router.head("/", include_in_schema=False)
@router.get("/", include_in_schema=False)
@router.get("/page.css", include_in_schema=False)
@router.get("/page.js", include_in_schema=False)
@router.get("/icon.svg", include_in_schema=False)
async def page(request: Request) -> Response:
    """Return a file of the page."""
    content, media_type = page_file(request.url.path.rpartition("/")[2])
    return Response(content, media_type=media_type, headers=PAGE_HEADERS)


@router.get("/docs", include_in_schema=False)
async def documentation(request: Request) -> HTMLResponse:
    """Return the API documentation as a page."""
    return HTMLResponse(documentation_page(request.app.openapi()), headers=PAGE_HEADERS)
