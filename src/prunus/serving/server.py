"""Listen, serve until a signal comes, finish what was accepted, stop."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator

import uvicorn

from prunus.errors import PrunusError
from prunus.serving.app import make_app
from prunus.serving.connections import guarded
from prunus.serving.service import Service
from prunus.serving.settings import ServeSettings

M_MMAP_THRESHOLD = -3  # of malloc.h
LARGE_BYTES = 2**20


class Server(uvicorn.Server):
    """A server that says when it is ready, and for which a signal is the usual way to end."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal; uvicorn's own would raise it again afterwards, as if something had failed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


def listen(host: str, port: int) -> socket.socket:
    """Bind an address, or say in one line why not."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise PrunusError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another address or port (0 is any free)"
        ) from None


def address_of(listener: socket.socket) -> str:
    """Write the address that a browser takes."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def make_server(service: Service, ready: Callable[[], None]) -> Server:
    """Put a server around a service; its log holds failures only."""
    settings = service.settings
    config = uvicorn.Config(
        make_app(service),
        http=guarded(settings),
        ws="none",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=24 * 3600,  # the guard closes what is idle
        timeout_graceful_shutdown=math.ceil(settings.request_seconds) + 5,
    )
    return Server(config, ready)


def return_large_blocks() -> None:
    """Have the memory of large images given back at once; glibc would keep it after the first few."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other systems have no such switch
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def run_service(service: Service, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests that were accepted are answered first."""
    return_large_blocks()
    warnings.filterwarnings("ignore", module="PIL")  # odd files of strangers are no news
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    settings: ServeSettings = service.settings
    with listen(settings.host, settings.port) as listener:
        address = address_of(listener)
        make_server(service, lambda: ready(address)).run(sockets=[listener])
