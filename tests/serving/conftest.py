"""A running service for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from prunus.serving.routes.examples import Example
from tests.makers.live_service import Live, live_service, picture


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Run a service with small limits and one example of birds."""
    examples = {"birds": [Example("owl", picture(1), "image/png")]}
    limits = {"max_images": 3, "max_upload_mb": 1, "max_megapixels": 1}
    with live_service(tmp_path_factory.mktemp("live"), examples, **limits) as service:
        yield service
