"""The documentation page shows the schema of the API as text."""

from __future__ import annotations

from prunus.serving.routes.documentation import documentation_page
from tests.makers.live_service import Live


def test_every_operation_is_shown_with_its_parameters_and_responses(live: Live) -> None:
    page = live.client.get("/docs").text
    for line in (
        "<h2><code>POST /predict/{domain}</code></h2>",
        "<h2><code>GET /domains</code></h2>",
        "<code>domain</code> in the path: The domain of the images. (one of birds, flowers)",
        "<code>top</code> in the query: The number of classes to return for each image. "
        "(at least 1; at most 1000; default: 5)",
        "<code>images</code>, a field of multipart/form-data: one or more files",
        "<summary>404: Unknown domain.</summary>",
        "&quot;probability&quot;: &quot;number&quot;",
    ):
        assert line in page


def test_texts_of_the_schema_are_escaped() -> None:
    operation = {"description": "a <script>", "responses": {"200": {"description": "<b>"}}}
    page = documentation_page({"info": {"title": "<i>"}, "paths": {"/x": {"get": operation}}})
    assert "a &lt;script&gt;" in page
    assert "<h1>&lt;i&gt;</h1>" in page
    assert "200: &lt;b&gt;" in page
