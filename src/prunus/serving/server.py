"""Listen, serve until a signal arrives, answer the accepted requests and stop."""

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
from prunus.serving.guarding.connections import Guard, guarded
from prunus.serving.routes.app import make_app
from prunus.serving.service import Service
from prunus.serving.settings import ServeSettings

M_MMAP_THRESHOLD = -3  # from malloc.h
LARGE_BYTES = 2**20


class Server(uvicorn.Server):
    """A server that reports when it is ready and stops normally on a signal."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal; unlike uvicorn's version, do not raise the signal again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Bind an address, or raise an error that says why it failed."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        reason = error.strerror or error
        raise PrunusError(
            f"cannot listen on {host}:{port}: {reason}; choose another address or port (0 picks a free one)"
        ) from None


def address_of(listener: socket.socket) -> str:
    """Return the URL to open in a browser."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def make_server(service: Service, ready: Callable[[], None]) -> Server:
    """Build the server of a service; it logs errors only."""
    settings = service.settings
    config = uvicorn.Config(
        make_app(service),
        http=guarded(Guard(settings.request_seconds, settings.max_connections, service.admission.arrivals)),
        ws="none",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=24 * 3600,  # GuardedConnection closes idle connections
        timeout_graceful_shutdown=math.ceil(settings.request_seconds) + 5,
    )
    return Server(config, ready)


def return_large_blocks() -> None:
    """Return the memory of large images to the system immediately; by default glibc would keep it."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only glibc has this setting
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def run_service(service: Service, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM, and answer the accepted requests before stopping."""
    return_large_blocks()
    warnings.filterwarnings("ignore", module="PIL")  # uploads may be malformed
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    settings: ServeSettings = service.settings
    with listen(settings.host, settings.port) as listener:
        address = address_of(listener)
        make_server(service, lambda: ready(address)).run(sockets=[listener])
