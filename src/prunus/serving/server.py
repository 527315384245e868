"""Listen, serve until a signal arrives, answer the accepted requests and stop."""

import asyncio
import contextlib
import ctypes
import errno
import gc
import logging
import math
import os
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator

import uvicorn

from prunus.errors import PrunusError
from prunus.serving.guarding.accepting import Acceptor
from prunus.serving.guarding.connections import Guard, GuardedConnection, evict_some, guarded
from prunus.serving.guarding.descriptors import (
    LANE,
    SPARE,
    ConnectionLimits,
    available_descriptors,
    connection_limits,
    used_descriptors,
)
from prunus.serving.guarding.headers import SECURITY_HEADERS
from prunus.serving.guarding.hooks import check_hooks
from prunus.serving.guarding.hosts import Hosts
from prunus.serving.routes.app import make_app
from prunus.serving.service import Service
from prunus.serving.settings import ServeSettings

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # from malloc.h
LARGE_BYTES = 2**20
PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)  # the address is right
PORT = "choose another port with the argument port (0 picks a free one)"
SPARE_BYTES = 8 * 2**20  # kept for the next request: returning less is slow, because the system clears all memory
DECODER_DESCRIPTORS = 3  # of this process, for each process that decodes images


class Server(uvicorn.Server):
    """A server that accepts as many connections as fit, reports when it is ready and stops normally on a signal."""

    def __init__(self, config: uvicorn.Config, limits: ConnectionLimits, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.limits = limits
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it."""
        await super().startup([])  # asyncio would accept more connections than there are descriptors
        self.servers = [Acceptor(listener, self._make_connection, self._has_room) for listener in sockets or ()]  # type: ignore[misc]
        self._ready()

    def _make_connection(self) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _has_room(self, starting: int) -> bool:
        """Return whether one more connection may be accepted, and close the one of least use if not."""
        connections = self.server_state.connections
        if len(connections) + starting < self.limits.connections + self.limits.lane:
            return True
        guarded_ones = (each for each in connections if isinstance(each, GuardedConnection))
        evict_some(guarded_ones, asyncio.get_running_loop().time())
        return False

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
        # Python's text repeats the address; the code of an unknown host is no errno
        reason = error.strerror if isinstance(error, socket.gaierror) or not error.errno else os.strerror(error.errno)
        remedy = PORT if error.errno in PORT_ERRORS else "choose another address with the argument host"
        raise PrunusError(f"cannot listen on {host}:{port}: {reason}; {remedy}") from None


def address_of(listener: socket.socket) -> str:
    """Return the URL to open in a browser."""
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def make_server(service: Service, ready: Callable[[], None]) -> Server:
    """Build the server of a service; it logs errors only."""
    settings = service.settings
    check_hooks()
    limits = allowed_connections(settings)
    hosts = Hosts(settings.host, settings.allow_hosts)
    guard = Guard(settings.request_seconds, limits.connections, service.admission.arrivals, hosts, service.quotas)
    config = uvicorn.Config(
        make_app(service),
        http=guarded(guard),
        ws="none",
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=list(SECURITY_HEADERS),
        timeout_keep_alive=24 * 3600,  # GuardedConnection closes idle connections
        timeout_graceful_shutdown=math.ceil(settings.request_seconds) + 5,
    )
    return Server(config, limits, ready)


def allowed_connections(settings: ServeSettings) -> ConnectionLimits:
    """Return how many connections the settings and the file descriptors of this process allow."""
    used = used_descriptors() + DECODER_DESCRIPTORS * (1 + settings.decoders)
    wanted = settings.max_connections
    return connection_limits(wanted, available_descriptors(used + SPARE + LANE + wanted), used)


def return_large_blocks() -> None:
    """Return the memory of large images to the system immediately; by default glibc would keep it."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only glibc has this setting
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, SPARE_BYTES)


def skip_loaded_objects() -> None:
    """Keep the garbage collector from visiting the modules and the model, which would stop everything for 100 ms."""
    gc.collect()
    gc.freeze()


def run_service(service: Service, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM, and answer the accepted requests before stopping."""
    with listen(service.settings.host, service.settings.port) as listener:
        address = address_of(listener)
        serve_on(service, listener, lambda: ready(address))


def serve_on(service: Service, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve the connections of a listener until SIGINT or SIGTERM."""
    return_large_blocks()
    warnings.filterwarnings("ignore", module="PIL")  # uploads may be malformed
    logging.getLogger("python_multipart").setLevel(logging.ERROR)

    def started() -> None:
        skip_loaded_objects()
        ready()

    server = make_server(service, started)
    if server.limits.note:
        logging.getLogger(__name__).warning(server.limits.note)
    try:
        server.run(sockets=[listener])
    finally:
        gc.unfreeze()
