"""Several processes that serve one model on one listening socket: `python -m prunus.serving.workers` is one of them."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from prunus.config import Settings
from prunus.runtime.predictor import Predictor
from prunus.serving.routes.examples import read_examples
from prunus.serving.server import address_of, listen, serve_on
from prunus.serving.service import make_service
from prunus.serving.settings import ServeSettings
from prunus.serving.supervisor import Supervisor, Worker, stopped_by_signals

READY = b"ready\n"
STOP_SECONDS = 20.0  # beyond the time limit of a request, after which a worker has stopped by itself


class Order(Settings):
    """What a worker serves, and the descriptor of the socket on which it listens."""

    model: str
    settings: ServeSettings
    examples: str | None
    listener: int


def run_workers(model: Path, settings: ServeSettings, examples: str | None, ready: Callable[[str], None]) -> None:
    """Serve with several processes until SIGINT or SIGTERM; each answers its accepted requests before it stops."""
    with listen(settings.host, settings.port) as listener:
        address = address_of(listener)
        order = Order(model=str(model), settings=settings, examples=examples, listener=listener.fileno())
        patience = settings.request_seconds + STOP_SECONDS
        supervisor = Supervisor(
            lambda: start_worker(order), is_ready, settings.workers, lambda: ready(address), patience
        )
        with stopped_by_signals(supervisor):
            supervisor.run()


def start_worker(order: Order) -> Worker:
    """Start a worker; its standard input ends when this process does, and it then stops too."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "prunus.serving.workers", order.model_dump_json()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[order.listener],
        start_new_session=True,  # Ctrl-C reaches this process only, which then stops the workers
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert worker.stdout is not None
    os.set_blocking(worker.stdout.fileno(), False)
    return worker


def is_ready(worker: Worker) -> bool:
    """Return whether a worker has just said that it answers requests."""
    assert worker.stdout is not None
    return worker.stdout.read() == READY


def work(order: Order) -> None:
    """Serve as one of several workers until a signal, or the end of the process that started this one."""
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    predictor = Predictor(order.model, order.settings.threads)
    examples = {} if order.examples is None else read_examples(order.examples, predictor.domains)
    service = make_service(Path(order.model).name, predictor, order.settings, examples)
    with socket.socket(fileno=order.listener) as listener:
        serve_on(service, listener, _say_ready)


def _say_ready() -> None:
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()


def _stop_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    work(Order.model_validate_json(sys.argv[1]))
