"""Metrics of the service in the text format of Prometheus."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SHORT_SECONDS = 0.02  # metrics that take longer to write ...
KEPT = 10  # ... are kept for so many times as long
IMAGES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Metrics of one service; unknown domains are counted without their names.

    Args:
        waiting: returns the number of requests that are read but not yet answered.
        held: returns the number of bytes that requests hold.
        given_up: returns the number of requests that were given up while they arrived.
    """

    def __init__(self, waiting: Callable[[], float], held: Callable[[], float], given_up: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._text, self._stale_at = b"", 0.0
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "prunus_requests", "Prediction requests.", ["domain", "status"], registry=self._registry
        )
        self._images = Counter("prunus_images", "Classified images.", ["domain"], registry=self._registry)
        self._seconds = Histogram(
            "prunus_request_seconds",
            "Time from the first byte of a request to its answer.",
            ["domain"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._batches = Histogram(
            "prunus_batch_images", "Images computed together.", buckets=IMAGES, registry=self._registry
        )
        self._restarts = Counter(
            "prunus_decoder_restarts", "Decoder processes that ended and were replaced.", registry=self._registry
        )
        for name, text, value in (
            ("prunus_queue_requests", "Requests that are read but not yet answered.", waiting),
            ("prunus_held_bytes", "Bytes that requests hold.", held),
            ("prunus_given_up_requests", "Requests that arrived too slowly, or made room for others.", given_up),
        ):
            Gauge(name, text, registry=self._registry).set_function(value)

    def batch(self, images: int) -> None:
        """Count a pass of the network."""
        self._batches.observe(images)

    def decoder_restart(self) -> None:
        """Count a decoder process that ended."""
        self._restarts.inc()

    def answer(self, domain: str, status: int, images: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(domain, str(status)).inc()
        if images:
            self._images.labels(domain).inc(images)
            self._seconds.labels(domain).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics as text, which is kept for a while if it takes long: many domains have many metrics."""
        if time.monotonic() >= self._stale_at:
            start = time.thread_time()
            self._text = generate_latest(self._registry)
            seconds = time.thread_time() - start
            self._stale_at = time.monotonic() + KEPT * seconds * (seconds > SHORT_SECONDS)
        return self._text
