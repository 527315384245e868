"""Limits that a decoder process sets for itself: memory, files and CPU time, where the system has them."""

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Iterator

if sys.platform != "win32":
    import resource

MAX_FILES = 32
BASE_BYTES = 256 * 2**20  # address space of the interpreter with its libraries, and of a request
PIXEL_BYTES = 16  # four copies of a picture
COUNTED = ~0 << 3  # Linux's clock of what limits count: ticks of this process


class OutOfTime(BaseException):  # not an Exception: Pillow and our own code catch those
    """The CPU time of a request is used up."""


def restrain(max_pixels: int, niceness: int) -> None:
    """Limit this process for the rest of its life."""
    for name in ("SIGINT", "SIGTERM"):  # the service ends its decoders itself, after the last answer
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform == "win32":
        return
    os.nice(niceness)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, MAX_FILES)
    _lower(resource.RLIMIT_AS, BASE_BYTES + PIXEL_BYTES * max_pixels)


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime after some CPU time; the system ends the process if that is not noticed within two seconds."""
    if sys.platform == "win32":
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = math.ceil(_counted_seconds() + seconds) + 2
    signal.signal(signal.SIGPROF, _stop)
    try:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
            signal.setitimer(signal.ITIMER_PROF, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)  # OutOfTime may still be raised here
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))  # or else the system would end the process later


def _counted_seconds() -> float:
    """Return the CPU time so far as the system's limits count it; after minutes, process_time() is seconds away."""
    return time.clock_gettime(COUNTED) if sys.platform == "linux" else time.process_time()


def _lower(limit: int, most: int) -> None:
    hard = resource.getrlimit(limit)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(OSError, ValueError):  # macOS refuses some; the other limits still hold
        resource.setrlimit(limit, (value, value))


def _stop(*_: object) -> None:
    raise OutOfTime
