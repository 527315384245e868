"""Errors of every kind are answered with a status and one sentence, and the schema loads nothing from other hosts."""

from __future__ import annotations

import pytest

from tests.makers.live_service import Live, picture


@pytest.mark.parametrize(
    ("path", "options", "status", "said"),
    [
        ("/predict/bird", {}, 404, "unknown domain 'bird'; did you mean 'birds'? known: birds, flowers"),
        (f"/predict/{'b' * 3000}", {}, 404, f"unknown domain '{'b' * 100}'; known: birds, flowers"),
        ("/predict/birds?top=0", {}, 422, "'top': Input should be greater than or equal to 1, got '0'"),
        ("/predict/birds?top=many", {}, 422, "'top'"),
        ("/predict/birds", {"json": {}}, 415, "the content type is 'application/json'; send image files as multipart"),
        ("/predict/birds", {"content": b""}, 415, "the content type is none"),
        ("/predict/birds", {"files": {"picture": picture(1)}}, 422, "unknown form field 'picture'; send image files"),
        ("/predict/birds", {"content": b"", "headers": {"Content-Type": "multipart/form-data"}}, 422, "boundary"),
        (
            "/predict/birds",
            {"content": b"--b\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
            422,
            "the form data cannot be read: it is truncated",
        ),
        (
            "/predict/birds",
            {"content": b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}},
            422,
            "the request contains no image",
        ),
        ("/nowhere", {}, 404, "this address does not exist; see /docs"),
        ("/health", {}, 405, "POST is not allowed for this address; see /docs"),
    ],
)
def test_a_request_that_cannot_be_answered_is_told_why(
    live: Live, path: str, options: dict[str, object], status: int, said: str
) -> None:
    answer = live.client.request("POST", path, **options)  # type: ignore[arg-type]  # options are httpx's own
    assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert said in answer.json()["error"]


def test_what_describes_the_interface_loads_nothing_from_elsewhere(live: Live) -> None:
    for path in ("/", "/docs", "/page.css", "/page.js"):
        answer = live.client.get(path)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in answer.text
    schema = live.client.get("/openapi.json").json()
    assert list(schema["paths"]) == ["/predict/{domain}", "/domains", "/health", "/metrics"]
    assert schema["paths"]["/predict/{domain}"]["post"]["parameters"][0]["schema"]["enum"] == ["birds", "flowers"]
