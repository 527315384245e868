"""The host names that a service answers to; a page of another site cannot reach it under a name of its own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from http import HTTPStatus

from prunus.serving.refusals import Refusal

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
ANY = "*"
MAX_NAME = 100  # characters of a client's text that are repeated


class Hosts:
    """The host names that are answered: loopback names, the address that is listened on, and further names.

    A service that listens on all interfaces cannot know its names, so it answers to any unless some are listed.

    Args:
        host: the address to listen on.
        further: more names; "*.example.org" stands for all names that end in .example.org, "*" for all.
    """

    def __init__(self, host: str, further: Sequence[str] = ()) -> None:
        self._any = ANY in further or (_is_wildcard(host) and not further)
        names = {_plain(name) for name in (*(() if _is_wildcard(host) else (host,)), *further)}
        self._names = {name for name in names if not name.startswith("*.")}
        self._endings = tuple(name[1:] for name in names if name.startswith("*."))
        self._shown = ", ".join(dict.fromkeys((*LOOPBACK, *(() if _is_wildcard(host) else (host,)), *further)))

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Return the refusal of a request to another host, or None; clients that name no host are no browsers."""
        if self._any:
            return None
        asked = [value.decode("latin-1") for name, value in headers if name == b"host"]
        if not asked or (len(asked) == 1 and self._accepts(asked[0])):
            return None
        return Refusal(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"this service does not answer to the host {asked[-1][:MAX_NAME]!r}; known: {self._shown}; "
            "add others with --allow-host when it is started",
            hang_up=True,
        )

    def _accepts(self, host: str) -> bool:
        name = _plain(host)
        return name in self._names or name.endswith(self._endings) or _is_loopback(name)


def _plain(host: str) -> str:
    """Return a host without its port, in lower case, and addresses in their short form."""
    text = host.strip().lower()
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
    elif text.count(":") > 1:
        name, rest = text, ""
    else:
        name, colon, port = text.partition(":")
        rest = colon + port
    if rest and not rest[1:].isdigit():
        return text  # not a port: no known name is like it
    address = _address(name)
    return name.rstrip(".") if address is None else str(address)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _is_wildcard(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_unspecified


def _is_loopback(name: str) -> bool:
    address = _address(name)
    return name == "localhost" or name.endswith(".localhost") or (address is not None and address.is_loopback)
