"""Which names a service answers to."""

from __future__ import annotations

from pathlib import Path

import pytest

from prunus.serving.guarding.hosts import Hosts
from tests.makers.live_service import Live, live_service, picture

LOOPBACK = ["localhost", "LOCALHOST:8000", "localhost.", "app.localhost", "127.0.0.1:8000", "127.9.9.9", "[::1]:80"]


def _answers(hosts: Hosts, *names: str) -> bool:
    return hosts.refusal([(b"accept", b"*/*"), *((b"host", name.encode("latin-1")) for name in names)]) is None


@pytest.mark.parametrize("name", LOOPBACK)
def test_loopback_names_are_always_answered(name: str) -> None:
    assert _answers(Hosts("127.0.0.1"), name)
    assert _answers(Hosts("10.0.0.1", ["example.org"]), name)


@pytest.mark.parametrize(
    ("host", "further", "answered", "refused"),
    [
        (
            "127.0.0.1",
            [],
            [],
            [
                "evil.example",
                "localhost:evil.example",
                "[::1]evil.example",
                "notlocalhost",
                "localhost.evil.example",
                "128.0.0.1",
                "",
                "[::2]",
            ],
        ),
        ("10.0.0.1", [], ["10.0.0.1:8000"], ["10.0.0.2", "10.0.0.1.evil.example"]),
        ("Box.lan", [], ["box.lan:80", "BOX.LAN."], ["lan", "a.box.lan"]),
        ("fe80:0:0:0:0:0:0:1", [], ["[fe80::1]:8000", "[FE80::1]"], ["[fe80::2]", "fe80"]),
        ("127.0.0.1", ["models.example.org"], ["models.example.org"], ["example.org", "x.models.example.org"]),
        ("127.0.0.1", ["*.example.org"], ["a.example.org", "a.b.example.org:1"], ["example.org", "aexample.org"]),
        ("127.0.0.1", ["*"], ["anything"], []),
        ("0.0.0.0", [], ["anything", "evil.example"], []),
        ("::", [], ["anything"], []),
        ("0.0.0.0", ["models.example.org"], ["models.example.org"], ["evil.example", "0.0.0.0"]),
    ],
)
def test_what_the_address_names_is_answered_and_nothing_else(
    host: str, further: list[str], answered: list[str], refused: list[str]
) -> None:
    hosts = Hosts(host, further)
    assert [name for name in answered if not _answers(hosts, name)] == []
    assert [name for name in refused if _answers(hosts, name)] == []


def test_a_request_may_name_no_host_and_must_not_name_two() -> None:
    assert _answers(Hosts("127.0.0.1"))
    assert not _answers(Hosts("127.0.0.1"), "localhost", "evil.example")
    assert not _answers(Hosts("127.0.0.1"), "localhost", "localhost")


def test_a_refusal_lists_the_known_names_and_what_to_do() -> None:
    refusal = Hosts("10.0.0.1", ["a.org"]).refusal([(b"host", b"e" * 5000)])
    assert refusal is not None
    assert (refusal.status, refusal.headers) == (421, {"Connection": "close"})
    assert f"does not answer to the host '{'e' * 100}'; known: localhost, 127.0.0.1, [::1], 10.0.0.1, a.org; add" in (
        refusal.message
    )


def test_a_service_refuses_other_hosts_before_it_reads_an_upload(live: Live) -> None:
    for path in ("/", "/health", "/docs", "/nowhere"):
        answer = live.client.get(path, headers={"Host": "evil.example"})
        assert (answer.status_code, list(answer.json())) == (421, ["error"])
    files = {"images": picture(1)}
    assert live.client.post("/predict/birds", files=files, headers={"Host": "evil.example"}).status_code == 421
    live.assert_right(picture(1))


def test_a_host_is_answered_once_it_is_allowed(tmp_path: Path) -> None:
    with live_service(tmp_path, allow_hosts=["models.example.org"]) as live:
        assert live.client.get("/health", headers={"Host": "models.example.org"}).status_code == 200
        assert live.client.get("/health", headers={"Host": "evil.example"}).status_code == 421
