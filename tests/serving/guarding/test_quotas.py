"""Quotas of addresses: they bind only while clients of other addresses use the service."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from prunus.serving.guarding import quotas as module
from prunus.serving.guarding.quotas import QuotaLimits, Quotas, address_of
from prunus.serving.refusals import Refusal
from tests.makers.live_service import Live, half_request, live_service, picture, until, upload


def _two_addresses() -> Quotas:
    quotas = Quotas(QuotaLimits(connections=2, bytes=100, cpu_seconds=10.0))
    for address in ("a", "a", "b"):
        quotas.open(address)
    return quotas


def _use_much(quotas: Quotas) -> None:
    quotas.open("a")
    quotas.hold("a", 101)
    quotas.spend("a", 10.5, 0.0)


CHECKS: list[tuple[Callable[[Quotas, str], Refusal | None], str]] = [
    (lambda quotas, address: quotas.too_many_connections(address), "your address holds 3 of 2 connections"),
    (lambda quotas, address: quotas.too_many_bytes(address), "your address holds 101 of 100 bytes"),
    (lambda quotas, address: quotas.too_much_cpu(address, 0.0), "took 10 of 10 CPU seconds in the last minute"),
]


@pytest.mark.parametrize(("check", "said"), CHECKS)
def test_an_address_beyond_its_quota_is_refused_and_the_others_are_not(
    check: Callable[[Quotas, str], Refusal | None], said: str
) -> None:
    quotas = _two_addresses()
    quotas.hold("a", 100)
    quotas.hold("a", -100)
    assert check(quotas, "a") is None
    _use_much(quotas)
    refusal = check(quotas, "a")
    assert refusal is not None
    assert (refusal.status, refusal.headers["Retry-After"]) == (429, "1")
    assert said in refusal.message
    assert check(quotas, "b") is None
    assert check(quotas, "never seen") is None


@pytest.mark.parametrize(("check", "said"), CHECKS)
def test_a_single_address_may_use_all(check: Callable[[Quotas, str], Refusal | None], said: str) -> None:
    quotas = _two_addresses()
    _use_much(quotas)
    quotas.close("b")
    assert check(quotas, "a") is None
    quotas.open("c")
    assert check(quotas, "a") is not None


def test_cpu_time_fades_within_minutes() -> None:
    quotas = _two_addresses()
    quotas.spend("a", 20.0, 0.0)
    assert quotas.too_much_cpu("a", 30.0) is not None  # 12.1 are left
    assert quotas.too_much_cpu("a", 50.0) is None  # 8.7 are left
    quotas.spend("a", 2.0, 50.0)
    assert quotas.too_much_cpu("a", 50.0) is not None


def test_addresses_without_connections_are_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ADDRESSES", 5)
    quotas = _two_addresses()
    for number in range(20):
        quotas.spend(f"gone {number}", 1.0, 0.0)
    assert len(quotas._uses) <= 6
    _use_much(quotas)
    assert quotas.too_many_connections("a") is not None


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (None, ""),
        (("10.0.0.1", 1), "10.0.0.1"),
        (("2001:db8:1:2:3:4:5:6", 1), "2001:db8:1:2::"),
        (("2001:db8:1:2::1", 1), "2001:db8:1:2::"),
        (("2001:db8:1:3::1", 1), "2001:db8:1:3::"),
        (("fe80::1%eth0", 1), "fe80::"),
        (("::ffff:10.0.0.1", 1), "10.0.0.1"),
    ],
)
def test_an_ipv6_network_counts_as_one_address(client: tuple[str, int] | None, address: str) -> None:
    assert address_of(client) == address


def _connect_from(live: Live, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", live.port), timeout=60, source_address=(address, 0))


def test_an_address_with_too_many_connections_loses_its_own(tmp_path: Path) -> None:
    with live_service(tmp_path, max_address_connections=3) as live, ExitStack() as stack:
        other = stack.enter_context(_connect_from(live, "127.0.0.2"))
        until(lambda: len(live.server.server_state.connections) == 1)
        for _ in range(10):
            stack.enter_context(_connect_from(live, "127.0.0.1"))
        until(lambda: len(live.server.server_state.connections) == 4)
        other.sendall(upload(picture(1)))  # although it was idle longest
        assert other.recv(12) == b"HTTP/1.1 200"


def test_an_address_whose_connections_all_wait_for_answers_gets_no_more_than_its_health(tmp_path: Path) -> None:
    with live_service(tmp_path, max_address_connections=2) as live, ExitStack() as stack:
        other = stack.enter_context(_connect_from(live, "127.0.0.2"))
        live.predictor.gate.clear()
        for _ in range(2):
            stack.enter_context(_connect_from(live, "127.0.0.1")).sendall(upload(picture(1)))
        until(lambda: live.service.admission.requests == 2)
        assert live.client.get("/domains").status_code == 429
        assert live.client.get("/health").status_code == 200
        live.predictor.gate.set()
        other.sendall(upload(picture(1)))
        assert other.recv(12) == b"HTTP/1.1 200"


def test_an_address_that_holds_too_many_bytes_is_refused(tmp_path: Path) -> None:
    with live_service(tmp_path, max_address_mb=0.1) as live, ExitStack() as stack:
        stack.enter_context(_connect_from(live, "127.0.0.2"))
        until(lambda: len(live.server.server_state.connections) == 1)
        holder = stack.enter_context(_connect_from(live, "127.0.0.1"))
        holder.sendall(half_request(150_000) + bytes(90_000))
        until(lambda: live.service.admission.bytes > 80_000)
        assert live.predict(bytes(30_000)).status_code == 429
        holder.close()
        until(lambda: live.service.admission.bytes == 0)
        live.assert_right(picture(1))


def test_an_address_that_took_too_much_cpu_time_is_refused_until_it_is_alone(tmp_path: Path) -> None:
    with live_service(tmp_path, max_address_cpu_seconds=1e-6) as live:
        live.assert_right(picture(1))
        with _connect_from(live, "127.0.0.2") as other:
            other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(12) == b"HTTP/1.1 200"
            refused = live.predict(picture(1))
            assert refused.status_code == 429
            assert "CPU seconds" in refused.json()["error"]
        until(lambda: live.predict(picture(1)).status_code == 200)
