"""What one address may use of the service while clients of other addresses use it too."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from http import HTTPStatus

from prunus.serving.refusals import Refusal

MINUTE = 60.0
MOST_ADDRESSES = 10_000  # that are remembered without an open connection
CONNECTIONS = "holds {used} of {most} connections"
BYTES = "holds {used:,} of {most:,} bytes"
CPU = "took {used:.0f} of {most:g} CPU seconds in the last minute"


@dataclass(frozen=True)
class QuotaLimits:
    """The most connections, bytes and CPU seconds per minute of one address."""

    connections: int
    bytes: int
    cpu_seconds: float


@dataclass
class Use:
    """What one address uses now; its CPU seconds fade within a minute."""

    connections: int = 0
    bytes: int = 0
    cpu_seconds: float = 0.0
    counted_at: float = 0.0

    def cpu(self, now: float) -> float:
        """Return the CPU seconds of about the last minute."""
        return self.cpu_seconds * math.exp((self.counted_at - now) / MINUTE)


class Quotas:
    """A second defence: behind a proxy all clients share one address, so quotas only apply if there are several."""

    def __init__(self, limits: QuotaLimits) -> None:
        self._limits = limits
        self._uses: dict[str, Use] = {}
        self._connected = 0  # addresses with an open connection

    def open(self, address: str) -> None:
        """Count a connection."""
        use = self._use(address)
        self._connected += use.connections == 0
        use.connections += 1

    def close(self, address: str) -> None:
        """Forget a connection."""
        use = self._use(address)
        use.connections -= 1
        self._connected -= use.connections == 0

    def hold(self, address: str, count: int) -> None:
        """Count bytes of requests, or forget them if the count is negative."""
        self._use(address).bytes += count

    def spend(self, address: str, seconds: float, now: float) -> None:
        """Count CPU time."""
        use = self._use(address)
        use.cpu_seconds, use.counted_at = use.cpu(now) + seconds, now

    def too_many_connections(self, address: str) -> Refusal | None:
        """Return the refusal of an address with too many connections, or None."""
        return self._refusal(CONNECTIONS, self._use(address).connections, self._limits.connections)

    def too_many_bytes(self, address: str) -> Refusal | None:
        """Return the refusal of an address that holds too many bytes, or None."""
        return self._refusal(BYTES, self._use(address).bytes, self._limits.bytes)

    def too_much_cpu(self, address: str, now: float) -> Refusal | None:
        """Return the refusal of an address that took too much CPU time, or None."""
        return self._refusal(CPU, self._use(address).cpu(now), self._limits.cpu_seconds)

    def _use(self, address: str) -> Use:
        use = self._uses.get(address)
        if use is None:
            if len(self._uses) >= MOST_ADDRESSES:
                self._uses = {name: each for name, each in self._uses.items() if each.connections or each.bytes}
            use = self._uses[address] = Use()
        return use

    def _refusal(self, reason: str, used: float, most: float) -> Refusal | None:
        if used <= most or self._connected < 2:
            return None
        text = f"your address {reason.format(used=used, most=most)} that it may use while others need the service"
        return Refusal(HTTPStatus.TOO_MANY_REQUESTS, f"{text}; try again later", hang_up=True)


def address_of(client: tuple[str, int] | None) -> str:
    """Return the address whose use is counted: of IPv6, the network that one customer usually has for himself."""
    host = client[0] if client else ""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), 64), strict=False).network_address)
