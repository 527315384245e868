"""List the methods."""

from collections.abc import Sequence

from prunus.catalog import MethodDescription, find_described, read_catalog
from prunus.errors import UnknownNameError


def methods(names: Sequence[str] = ()) -> list[MethodDescription]:
    """Describe all methods, or the named ones: what each does, where it was published and what it costs."""
    known = [method.name for method in read_catalog().methods]
    described = {name: find_described(name) for name in names or known}
    for name in described:
        if name not in known:
            raise UnknownNameError("method", name, known)
    return [method for method in described.values() if method is not None]
