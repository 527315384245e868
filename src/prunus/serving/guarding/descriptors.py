"""The number of connections that the file descriptors of this process allow."""

from dataclasses import dataclass
from pathlib import Path

from prunus.errors import PrunusError

SPARE = 24  # descriptors of the event loop, and of files and processes that are opened while the service runs
LANE = 32  # connections beyond the limit: they are told to come later, and may ask for the health
FEWEST = 4


@dataclass(frozen=True)
class ConnectionLimits:
    """The most connections, how many more may wait to be refused, and a note if the system allows fewer than wanted."""

    connections: int
    lane: int
    note: str = ""


def connection_limits(wanted: int, descriptors: int, used: int) -> ConnectionLimits:
    """Return the limits for a process that may have some descriptors and already uses some of them."""
    free = descriptors - used - SPARE
    lane = max(1, min(LANE, free // 8))
    if wanted + lane <= free:
        return ConnectionLimits(wanted, lane)
    limit = f"the limit of {descriptors} open files (ulimit -n)"
    if free - lane < FEWEST:
        raise PrunusError(
            f"{limit} is too low for a service, which needs {used + SPARE + FEWEST + 1}; raise it, for example to 1024"
        )
    note = f"{limit} allows {free - lane} connections at the same time; max_connections is {wanted}"
    return ConnectionLimits(free - lane, lane, note)


def used_descriptors() -> int:
    """Return the number of descriptors that this process uses."""
    folders = (folder for folder in (Path("/proc/self/fd"), Path("/dev/fd")) if folder.is_dir())
    return sum(1 for folder in list(folders)[:1] for _ in folder.iterdir())


def available_descriptors(wanted: int) -> int:
    """Return the number of descriptors that this process may use, after raising it towards what is wanted."""
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ModuleNotFoundError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return wanted if soft == resource.RLIM_INFINITY else soft
