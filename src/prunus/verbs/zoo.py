"""List backbones: their size, their input, and the origin of their weights."""

import warnings
from collections.abc import Iterator, Sequence

from prunus.backbone.own.registry import own_names
from prunus.catalog import ZooRow, read_catalog
from prunus.errors import PrunusError


def zoo(names: Sequence[str] = ()) -> list[ZooRow]:
    """Describe the bundled and the registered backbones, or any others by name; no weights are downloaded.

    Other backbones than the bundled ones need torch, and those of timm also timm.
    """
    bundled = {row.name: row for row in read_catalog().backbones}
    if not names:
        return [*bundled.values(), *_registered()]
    return [bundled[name] if name in bundled else _describe(name) for name in names]


def _registered() -> Iterator[ZooRow]:
    """Describe what was registered; a package that does not work must not hide the others."""
    for name in own_names():
        try:
            yield _describe(name)
        except (PrunusError, ModuleNotFoundError) as error:
            warnings.warn(f"the registered backbone {name!r} cannot be used: {error}", stacklevel=3)


def _describe(name: str) -> ZooRow:
    from prunus.methods.describing import describe_backbone  # noqa: PLC0415  # the bundled ones need no torch

    return describe_backbone(name)
