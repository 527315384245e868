"""The routes other than predictions."""

from __future__ import annotations

import pytest

from tests.makers.live_service import Live, picture


def test_examples_are_given_by_number_and_nothing_else_is(live: Live) -> None:
    birds, flowers = live.client.get("/domains").json()["domains"]
    assert birds["examples"] == [{"name": "owl", "path": "examples/birds/0"}]
    assert flowers["examples"] == []
    assert live.client.get("/examples/birds/0").content == picture(1)
    for path in ("birds/1", "birds/-1", "flowers/0", "..%2F..%2Fetc/0", "birds/..%2F0", "birds/x"):
        answer = live.client.get(f"/examples/{path}")
        assert answer.status_code in (404, 422), path
        assert set(answer.json()) == {"error"}


def test_health_and_metrics_tell_what_happened(live: Live) -> None:
    assert live.client.get("/health").json()["status"] == "ok"
    before: list[str] = []
    after: list[str] = []
    for seen in (before, after):
        seen += [line for line in live.client.get("/metrics").text.splitlines() if line.startswith("prunus_requests_t")]
        live.predict(picture(0), domain="flowers")
        live.predict(picture(0), domain="nobody")
    assert before != after
    assert not any("nobody" in line for line in after)


@pytest.mark.parametrize("path", ["/", "/health"])
def test_who_only_wants_to_know_whether_it_answers_gets_the_head(live: Live, path: str) -> None:
    head, whole = live.client.head(path), live.client.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == whole.headers[name]
