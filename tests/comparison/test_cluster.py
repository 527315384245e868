"""An address without a Ray cluster is refused at once."""

import socket
import time

import pytest

from prunus.comparison.cluster import SECONDS_TO_ANSWER, check_cluster
from prunus.errors import TrainingError


def _closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_refused_at_once(scheme: str) -> None:
    address = f"{scheme}127.0.0.1:{_closed_port()}"
    began = time.monotonic()
    with pytest.raises(TrainingError) as caught:
        check_cluster(address)
    assert time.monotonic() - began < SECONDS_TO_ANSWER + 1
    assert str(caught.value).startswith(f"no Ray cluster at {address!r}: ")
    assert str(caught.value).endswith("; write HOST:PORT or auto, and start a cluster with: ray start --head")


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:", ":6379", "127.0.0.1:port", "127.0.0.1:70000"])
def test_other_forms_are_refused(address: str) -> None:
    with pytest.raises(TrainingError, match="it is not of the form HOST:PORT"):
        check_cluster(address)


def test_an_address_where_something_listens_is_left_to_ray() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_cluster(f"127.0.0.1:{server.getsockname()[1]}")
    check_cluster("local")


def test_auto_is_the_address_that_ray_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="needs the extra sweep")
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{_closed_port()}")
    with pytest.raises(TrainingError, match=r"no Ray cluster at 'auto': .*refused"):
        check_cluster("auto")
