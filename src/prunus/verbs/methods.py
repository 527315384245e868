"""List the methods."""

from prunus.catalog import MethodDescription, read_catalog


def methods() -> list[MethodDescription]:
    """Describe all methods: what each does, where it was published and what it costs."""
    return list(read_catalog().methods)
