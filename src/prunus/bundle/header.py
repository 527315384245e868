"""What stands before a model file's numbers: the manifest, where everything lies, and a checksum."""

from __future__ import annotations

import hashlib
from math import prod

from pydantic import Field

from prunus.bundle.dtypes import DType
from prunus.bundle.index import Code
from prunus.bundle.manifest import Manifest, ManifestPart

FORMAT_VERSION = 2
MAX_WEIGHTS = 2**28  # of all convolutions, were they dense: a file that asks for more is refused before memory is taken
MAX_DOMAINS = 4096


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
    """Everything but the numbers; `sha256` is over the header with an empty checksum and all numbers."""

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
        weights = sum(conv.num_kernels * prod(conv.kernel) for conv in convs.values())
        claims = {
            "a kernel without a size": any(side < 1 for conv in convs.values() for side in conv.kernel),
            "more kernels kept than there are": any(e.kept > convs[name].num_kernels for name, e in self.index.items()),
            "a tensor of a negative size": any(side < 0 for entry in tensors for side in entry.shape),
            f"{domains} domains, where {MAX_DOMAINS} are the most": domains > MAX_DOMAINS,
            f"a network of {weights} weights, where {MAX_WEIGHTS} are the most": weights > MAX_WEIGHTS,
        }
        return next((f"it claims {claim}" for claim, made in claims.items() if made), None)

    def checksum(self, parts: dict[str, bytes]) -> str:
        """Compute the checksum over this header and the parts in the order of their names."""
        digest = hashlib.sha256(self.model_copy(update={"sha256": ""}).model_dump_json().encode())
        for name in sorted(parts):
            digest.update(parts[name])
        return digest.hexdigest()
