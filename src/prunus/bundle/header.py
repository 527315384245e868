"""What stands before a model file's numbers: the manifest, where everything lies, and a checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from math import prod

from pydantic import Field

from prunus.bundle.dtypes import DType
from prunus.bundle.index import Code
from prunus.bundle.manifest import Manifest, ManifestPart

FORMAT_VERSION = 2
MAX_WEIGHTS = 2**28  # of all convolutions, were they dense: a file that asks for more is refused before memory is taken
MAX_SWITCHES = 2**29  # kernels x domains
MAX_DIMS = 8


class TensorEntry(ManifestPart):
    """One of several tensors that lie one after the other."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Count its numbers."""
        return prod(self.shape)


class IndexEntry(ManifestPart):
    """How a layer's index is coded, and how many kernels it keeps."""

    code: Code
    num_bytes: int = Field(ge=0)
    kept: int = Field(ge=0)


class FileHeader(ManifestPart):
    """Everything but the numbers; `sha256` is over its own text, but for these digits, and all numbers."""

    format_version: int
    manifest: Manifest
    dtype: DType
    index: dict[str, IndexEntry]
    norms: tuple[TensorEntry, ...]
    shared: tuple[TensorEntry, ...]
    sha256: str = ""

    def sizes(self) -> dict[str, int]:
        """Give how many elements each part of the file must have."""
        manifest = self.manifest
        kept = {name: entry.kept for name, entry in self.index.items()}
        domains = len(manifest.domains)
        heads = sum((manifest.num_features + 1) * len(entry.classes) for entry in manifest.domains.values())
        return {
            "kernels": sum(count * prod(manifest.convs[name].kernel) for name, count in kept.items()),
            "index": sum(entry.num_bytes for entry in self.index.values()),
            "masks": domains * sum(-(-count // 8) for count in kept.values()),
            "norms": domains * sum(entry.size for entry in self.norms),
            "heads": heads,
            "shared": sum(entry.size for entry in self.shared),
        }

    def problem(self) -> str | None:
        """Say what is impossible about the header, if anything."""
        convs, domains = self.manifest.convs, len(self.manifest.domains)
        tensors = (*self.norms, *self.shared)
        if self.index.keys() != convs.keys():
            return "its index is not of its layers"
        kernels = sum(conv.num_kernels for conv in convs.values())
        weights = sum(conv.num_kernels * prod(conv.kernel) for conv in convs.values())
        claims = {
            "a kernel without a size": any(side < 1 for conv in convs.values() for side in conv.kernel),
            "more kernels kept than there are": any(e.kept > convs[name].num_kernels for name, e in self.index.items()),
            "an impossible tensor": any(not _is_possible(entry.shape) for entry in tensors),
            "an index longer than a bit per kernel": any(
                entry.num_bytes > -(-convs[name].num_kernels // 8) for name, entry in self.index.items()
            ),
            f"a network of {weights} weights, where {MAX_WEIGHTS} are the most": weights > MAX_WEIGHTS,
            f"{kernels} kernels for {domains} domains, which is too much": kernels * domains > MAX_SWITCHES,
        }
        return next((f"it claims {claim}" for claim, made in claims.items() if made), None)


def checksum(text: str, parts: Mapping[str, bytes]) -> str:
    """Compute the checksum over a header's text, with nothing where the checksum will stand, and the parts by name."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(parts):
        digest.update(parts[name])
    return digest.hexdigest()


def _is_possible(shape: tuple[int, ...]) -> bool:
    return len(shape) <= MAX_DIMS and all(0 <= side <= MAX_WEIGHTS for side in shape)
