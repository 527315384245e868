"""A service does not start with a uvicorn whose hooks are gone."""

from __future__ import annotations

from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from prunus.errors import PrunusError
from prunus.serving.guarding.connections import GuardedConnection
from prunus.serving.guarding.hooks import check_hooks


def test_the_installed_version_has_all_hooks() -> None:
    check_hooks()


OVERRIDDEN = [
    name
    for name in vars(GuardedConnection)
    if name in vars(HttpToolsProtocol) and not name.startswith("__") and callable(getattr(GuardedConnection, name))
]


def test_there_are_hooks_to_rename() -> None:
    assert {"on_body", "on_headers_complete", "on_response_complete", "connection_made"} <= set(OVERRIDDEN)


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_a_hook_that_was_renamed_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The guard's method still exists under the old name, and nobody calls it."""
    monkeypatch.setattr(GuardedConnection, f"{name}_renamed", getattr(HttpToolsProtocol, name), raising=False)
    monkeypatch.delattr(HttpToolsProtocol, name)
    with pytest.raises(PrunusError, match=f"uvicorn {uvicorn.__version__} does not work with the limits"):
        check_hooks()


@pytest.mark.parametrize("name", ["response_complete", "response_started"])
def test_a_cycle_that_tells_no_state_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def hidden(self: RequestResponseCycle, attribute: str) -> Any:  # noqa: ANN401
        if attribute == name:
            raise AttributeError(attribute)
        return object.__getattribute__(self, attribute)

    monkeypatch.setattr(RequestResponseCycle, "__getattribute__", hidden)
    with pytest.raises(PrunusError, match="does not work with the limits"):
        check_hooks()


@pytest.mark.parametrize("name", ["startup", "shutdown", "capture_signals", "handle_exit"])
def test_a_server_without_a_hook_is_noticed(name: str) -> None:
    changed: Any = type("Changed", (uvicorn.Server,), {name: lambda self, other, arguments, here: None})
    with pytest.raises(PrunusError, match=f"Server.{name} takes other arguments"):
        check_hooks(changed)
    missing: Any = type("Missing", (), {each: getattr(uvicorn.Server, each) for each in ("startup",) if each != name})
    with pytest.raises(PrunusError, match=r"Server\.\w+ is gone"):
        check_hooks(missing)
