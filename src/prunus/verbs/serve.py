"""Serve a model file over HTTP."""

from collections.abc import Callable
from pathlib import Path

from prunus.errors import MissingExtraError
from prunus.runtime.predictor import Predictor
from prunus.serving.settings import ServeSettings
from prunus.verbs.arguments import ModelLike, model_path

PACKAGES = ("fastapi", "starlette", "uvicorn", "httptools", "python_multipart", "prometheus_client")


def serve(
    model: ModelLike,
    settings: ServeSettings | None = None,
    examples: str | Path | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve predictions of a model file over HTTP until SIGINT or SIGTERM; accepted requests are answered first.

    Args:
        examples: a folder `<domain>/<image>` for the page, or "demo:" for images of the bundled domains.
        ready: called with the address once the service is up.
    """
    settings = settings or ServeSettings()
    path = model_path(model)
    predictor = Predictor(path, settings.threads)
    try:
        from prunus.serving.routes.examples import read_examples  # noqa: PLC0415  # an extra
        from prunus.serving.server import run_service  # noqa: PLC0415
        from prunus.serving.service import make_service  # noqa: PLC0415
        from prunus.serving.workers import run_workers  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        raise MissingExtraError(error.name, "serve", "the service") from None
    images = {} if examples is None else read_examples(examples, predictor.domains)
    if settings.workers > 1:
        run_workers(path, settings, None if examples is None else str(examples), ready)
        return
    run_service(make_service(path.name, predictor, settings, images), ready)
