"""The route of predictions: its parameters, its schema, and what it counts."""

from __future__ import annotations

import pytest

from tests.makers.live_service import Live, picture


def test_as_many_classes_are_given_as_were_asked_for(live: Live) -> None:
    counts = [len(live.predict(picture(0), top=top).json()["results"][0]["predictions"]) for top in (1, 2, 3, 1000)]
    assert counts == [1, 2, 3, 3]


def test_names_of_files_come_back_in_order(live: Live) -> None:
    files = [("images", ("../b.png", picture(1))), ("images", ("ä<b>.png", picture(2)))]
    answer = live.client.post("/predict/birds", files=files)
    assert [each["name"] for each in answer.json()["results"]] == ["../b.png", "ä<b>.png"]


@pytest.mark.parametrize("top", ["0", "many", "1001"])
def test_a_number_of_classes_out_of_range_is_refused(live: Live, top: str) -> None:
    answer = live.client.post("/predict/birds", params={"top": top}, files={"images": picture(1)})
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("'top': ")
    assert answer.json()["error"].endswith(f"got {top!r}")


def test_the_schema_names_the_domains_and_the_number_of_classes(live: Live) -> None:
    operation = live.client.get("/openapi.json").json()["paths"]["/predict/{domain}"]["post"]
    domain, top = operation["parameters"]
    assert (domain["name"], domain["in"], domain["schema"]["enum"]) == ("domain", "path", ["birds", "flowers"])
    assert (top["name"], top["in"], top["required"]) == ("top", "query", False)
    assert (top["schema"]["minimum"], top["schema"]["maximum"], top["schema"]["default"]) == (1, 1000, 5)
    assert operation["requestBody"]["content"]["multipart/form-data"]["schema"]["required"] == ["images"]
    assert list(operation["responses"]) == ["200", "404", "408", "413", "415", "421", "422", "429", "503"]


def test_every_request_is_counted_with_its_status(live: Live) -> None:
    counted = 'prunus_requests_total{domain="flowers",status="%s"}'
    before = {status: _value(live, counted % status) for status in (200, 415)}
    images = _value(live, 'prunus_images_total{domain="flowers"}')
    live.predict(picture(0), picture(1), domain="flowers")
    live.predict(b"text", domain="flowers")
    assert {status: _value(live, counted % status) - before[status] for status in (200, 415)} == {200: 1, 415: 1}
    assert _value(live, 'prunus_images_total{domain="flowers"}') - images == 2


def _value(live: Live, metric: str) -> float:
    lines = live.client.get("/metrics").text.splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric)), 0.0)
