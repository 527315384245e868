"""Find out quickly whether there is a Ray cluster at an address; Ray itself tries for minutes."""

import socket

from prunus.errors import TrainingError

AUTO = "auto"  # the cluster of this machine
LOCAL = "local"  # a new one for the time of the sweep
SECONDS_TO_ANSWER = 5
REMEDY = "write HOST:PORT or auto, and start a cluster with: ray start --head"


def check_cluster(address: str) -> None:
    """Refuse an address where nothing listens."""
    if address == LOCAL:
        return
    try:
        host, port = _host_and_port(_found() if address == AUTO else address)
        socket.create_connection((host, port), SECONDS_TO_ANSWER).close()
    except (OSError, ValueError) as error:
        raise no_cluster(address, error) from None


def no_cluster(address: str, error: Exception) -> TrainingError:
    """Return an error that says what to do, with the first line of the reason."""
    reason = str(error).partition("\n")[0] or type(error).__name__
    return TrainingError(f"no Ray cluster at {address!r}: {reason}; {REMEDY}")


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or int(port) >= 2**16:
        raise ValueError("it is not of the form HOST:PORT")
    return host.strip("[]"), int(port)


def _found() -> str:
    """Return the address of the cluster that Ray finds on this machine; Ray has no public function for it."""
    from ray._private.services import canonicalize_bootstrap_address  # noqa: PLC0415  # optional package

    return canonicalize_bootstrap_address(AUTO) or ""
