"""A check at the start that the installed uvicorn still calls what the guards override.

A guard whose method was renamed in uvicorn would never be called, and the service would run without limits.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.responses import PlainTextResponse
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from prunus.errors import PrunusError
from prunus.serving.guarding.arrivals import Arrivals
from prunus.serving.guarding.connections import Guard, GuardedConnection, guarded
from prunus.serving.guarding.hosts import Hosts
from prunus.serving.guarding.quotas import QuotaLimits, Quotas

CONNECTION_HOOKS = (
    *("connection_made", "connection_lost", "data_received", "on_headers_complete", "on_body"),
    *("on_message_complete", "on_response_complete", "pause_writing", "resume_writing", "send_400_response"),
)
HEAD = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"
SERVER_HOOKS = {
    "startup": ["self", "sockets"],
    "shutdown": ["self", "sockets"],
    "capture_signals": ["self"],
    "handle_exit": ["self", "sig", "frame"],
}


def check_hooks(server: type[uvicorn.Server] = uvicorn.Server) -> None:
    """Raise an error if the installed uvicorn does not work with the guards."""
    try:
        _check_server(server)
        for name in CONNECTION_HOOKS:
            _expect(name in vars(HttpToolsProtocol), f"HttpToolsProtocol.{name} is gone")
        asyncio.run(_check_connection())
    except (AttributeError, TypeError, LookupError, AssertionError) as error:
        raise PrunusError(
            f"uvicorn {uvicorn.__version__} does not work with the limits of this service ({error}); "
            "install a version that pip install 'prunus[serve]' accepts"
        ) from error


def _check_server(server: type[uvicorn.Server]) -> None:
    for name, parameters in SERVER_HOOKS.items():
        found = getattr(server, name, None)
        _expect(found is not None, f"Server.{name} is gone")
        _expect(list(inspect.signature(found).parameters) == parameters, f"Server.{name} takes other arguments")  # type: ignore[arg-type]


async def _check_connection() -> None:
    """Send a request in pieces to a connection without a network, and watch the guards count it."""
    arrivals = Arrivals(max_bytes=100)
    finished = asyncio.Event()

    async def app(scope: Any, receive: Callable[..., Any], send: Any) -> None:  # noqa: ANN401  # the server's types
        while (await receive()).get("more_body"):
            pass
        await PlainTextResponse("ok")(scope, receive, send)
        finished.set()

    guard = Guard(60.0, 10, arrivals, Hosts("127.0.0.1"), Quotas(QuotaLimits(10, 100, 1.0)))
    config = uvicorn.Config(
        app, http=guarded(guard), lifespan="off", ws="none", log_config=None, access_log=False, proxy_headers=False
    )
    config.load()
    state = uvicorn.Server(config).server_state
    connection = config.http_protocol_class(config=config, server_state=state, app_state={})  # type: ignore[call-arg]
    assert isinstance(connection, GuardedConnection)
    with socket.socket() as unconnected:
        transport = _Recorder(unconnected)
        connection.connection_made(transport)
        _expect(connection in state.connections, "a new connection is not listed")
        _check_body(connection, arrivals)
        await asyncio.wait_for(finished.wait(), 10)
        _expect(transport.sent.startswith(b"HTTP/1.1 200 "), "a request is not answered")
        _expect(connection.evictable, "the end of a response is not noticed")
        connection.data_received(HEAD.replace(b"localhost", b"elsewhere") + b"abc")
        await asyncio.gather(*state.tasks)
        _expect(b"HTTP/1.1 421 " in transport.sent, "a request to another host is answered")
        connection.connection_lost(None)
        _expect(not state.connections, "a closed connection is still listed")


def _check_body(connection: GuardedConnection, arrivals: Arrivals) -> None:
    connection.data_received(HEAD + b"ab")
    _expect((len(arrivals), arrivals.bytes) == (1, 2), "the bytes of a body are not counted")
    _expect(connection.evictable, "a request that arrives cannot be given up")
    _expect(not connection.cycle.response_started, "a response starts too early")
    connection.data_received(b"c")
    _expect(len(arrivals) == 0, "the end of a body is not noticed")
    _expect(not connection.evictable, "a complete request can be given up")
    connection.pause_writing()
    _expect(connection.evictable, "a client that does not read is not noticed")
    connection.resume_writing()
    _expect(not connection.evictable, "a client that reads again is not noticed")


def _expect(holds: bool, problem: str) -> None:
    if not holds:
        raise AssertionError(problem)


class _Recorder(asyncio.Transport):
    """A transport that keeps what is sent."""

    def __init__(self, unconnected: socket.socket) -> None:
        super().__init__({"socket": unconnected})
        self.sent = b""
        self._closing = False

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    @override
    def is_closing(self) -> bool:
        return self._closing

    @override
    def close(self) -> None:
        self._closing = True

    abort = close

    @override
    def pause_reading(self) -> None:
        pass

    @override
    def resume_reading(self) -> None:
        pass
