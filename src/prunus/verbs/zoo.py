"""List backbones: their size, their input, and the origin of their weights."""

from collections.abc import Sequence

from prunus.catalog import ZooRow, read_catalog


def zoo(names: Sequence[str] = ()) -> list[ZooRow]:
    """Describe the bundled backbones, or any others by name; no weights are downloaded.

    Other backbones than the bundled ones need torch and timm.
    """
    bundled = {row.name: row for row in read_catalog().backbones}
    return [bundled[name] if name in bundled else _describe(name) for name in names or bundled]


def _describe(name: str) -> ZooRow:
    from prunus.methods.describing import describe_backbone  # noqa: PLC0415  # the bundled ones need no torch

    return describe_backbone(name)
