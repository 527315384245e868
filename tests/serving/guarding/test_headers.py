"""Every response carries the security headers, also those that no route writes."""

from __future__ import annotations

import pytest

from tests.makers.live_service import Live, read_all

EXPECTED = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/docs", "/health", "/domains", "/metrics", "/examples/birds/0", "/openapi.json", "/no"]
)
def test_every_response_tells_browsers_not_to_guess(live: Live, path: str) -> None:
    headers = live.client.get(path).headers
    assert {name: headers.get_list(name) for name in EXPECTED} == {name: [value] for name, value in EXPECTED.items()}
    (policy,) = headers.get_list("content-security-policy")
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_a_response_to_what_is_no_request_carries_them_too(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        answer = read_all(connection).lower()
    assert answer.startswith(b"http/1.1 400 ")
    for name, value in EXPECTED.items():
        assert f"\r\n{name}: {value}\r\n".lower().encode() in answer
