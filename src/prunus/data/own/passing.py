"""The domains that a program passes to one call; no torch, so that model files can be measured without it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from prunus.data.own.domain import OwnDomain, as_own_domain
from prunus.errors import DataError

_DOMAINS: ContextVar[Mapping[str, OwnDomain] | None] = ContextVar("passed_domains", default=None)


@contextmanager
def passing_domains(domains: Mapping[str, object] | None) -> Iterator[None]:
    """Let domains be found by their names until the end of a call."""
    own = {name: as_own_domain(value, name) for name, value in (domains or {}).items()}
    token = _DOMAINS.set(own)
    try:
        yield
    finally:
        _DOMAINS.reset(token)


def is_passed(name: str) -> bool:
    """Return whether a domain was passed under a name."""
    return name in (_DOMAINS.get() or {})


def passed_domain(name: str) -> OwnDomain:
    """Return the domain that was passed under a name."""
    own = _DOMAINS.get() or {}
    if name not in own:
        among = f"; passed: {', '.join(own)}" if own else ""
        raise DataError(
            f"the images of domain {name!r} come from Python, and were not passed{among}; "
            f"in Python pass domains={{{name!r}: DATASET}}, the same ones as in training"
        )
    return own[name]
