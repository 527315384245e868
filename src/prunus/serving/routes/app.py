"""The FastAPI application of a service: its routes, its error responses and its OpenAPI schema."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from prunus.serving.refusals import Refusal
from prunus.serving.routes.others import router
from prunus.serving.service import Service
from prunus.version import __version__

DESCRIPTION = "Classify images of several domains with one pruned model."


def make_app(service: Service) -> FastAPI:
    """Build the application of a service; the service starts and stops with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        service.close()

    app = FastAPI(
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        exception_handlers={
            Refusal: _refused,
            RequestValidationError: _invalid,
            HTTPException: _no_route,
            Exception: _failed,
        },
    )
    app.state.service = service
    app.router.routes.extend(router.routes)  # include_router() would add a layer to every request
    schema = _schema(app, service)
    app.openapi = lambda: schema  # type: ignore[method-assign]
    return app


def _schema(app: FastAPI, service: Service) -> dict[str, Any]:
    """Build the OpenAPI schema, with the names of this model's domains."""
    schema = get_openapi(
        title=f"Prunus: {service.name}", version=__version__, description=DESCRIPTION, routes=app.routes
    )
    parameters = schema["paths"]["/predict/{domain}"]["post"]["parameters"]
    domain = next(parameter for parameter in parameters if parameter["name"] == "domain")
    domain["schema"]["enum"] = list(service.predictor.domains)
    for name in ("HTTPValidationError", "ValidationError"):  # the service answers with ErrorAnswer instead
        schema["components"]["schemas"].pop(name, None)
    return schema


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": message}, status, headers)


async def _refused(_: Request, refusal: Refusal) -> Response:
    return _error(refusal.status, refusal.message, refusal.headers)


async def _invalid(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    return _error(422, f"{first['loc'][-1]!r}: {first['msg']}, got {str(first.get('input'))[:200]!r}")


async def _no_route(request: Request, error: HTTPException) -> Response:
    messages = {
        404: "this address does not exist; see /docs",
        405: f"{request.method} is not allowed for this address; see /docs",
    }
    return _error(error.status_code, messages.get(error.status_code, str(error.detail)), dict(error.headers or {}))


async def _failed(_: Request, error: Exception) -> Response:
    return _error(500, "internal error; see the log of the service")
