"""What stands before a model file's numbers: the manifest, where everything lies, and a checksum."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, prod
from typing import Annotated, NamedTuple

from pydantic import Field

from prunus.bundle.dtypes import CODES, STORED, DType
from prunus.bundle.index import Code
from prunus.bundle.manifest import Manifest, ManifestPart
from prunus.graph.limits import FREE_WEIGHTS, MAX_ARRAYS, MAX_SWITCHES, MAX_WEIGHTS, WEIGHTS_PER_BYTE
from prunus.graph.operations import Conv

FORMAT_VERSION = 3

Count = Annotated[int, Field(ge=0, le=2**53)]
TensorName = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,4})\.[a-z]+$")]  # the operation's number, the role


class IndexEntry(NamedTuple):
    """How a layer's index is coded, and how many kernels it keeps."""

    code: Code
    num_bytes: Count
    kept: Count


class Part(NamedTuple):
    """Where an array lies in the file's data, and of what type it is."""

    code: str
    size: int
    begin: int
    end: int


class FileHeader(ManifestPart):
    """Everything but the numbers; `sha256` is over its own text, but for these digits, and all numbers.

    The index has an entry per layer, in the order of the graph; `norms` and `shared` name tensors, whose shapes follow
    from the graph.
    """

    format_version: int
    manifest: Manifest
    dtype: DType
    index: tuple[IndexEntry, ...]
    norms: tuple[TensorName, ...]
    shared: tuple[TensorName, ...]
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]

    def layers(self) -> Iterator[tuple[str, IndexEntry]]:
        """Give every layer's name and index."""
        return zip(self.manifest.convs, self.index, strict=True)

    def shape(self, name: str) -> tuple[int, ...]:
        """Give the shape of a tensor under `norms` or `shared`."""
        number, _, role = name.partition(".")
        return self._shapes(int(number))[role]

    def parts(self) -> dict[str, Part]:
        """Say where each array must lie: numbers of more bytes first, then by name, without holes."""
        codes = dict.fromkeys(("norms", "shared"), "F32") | dict.fromkeys(("index", "masks"), "U8")
        codes |= dict.fromkeys(("kernels", "heads"), CODES[self.dtype])
        widths = {"F32": 4, "U8": 1, CODES[self.dtype]: STORED[self.dtype].itemsize}
        found: dict[str, Part] = {}
        place, sizes = 0, self.sizes()
        for name in sorted(sizes, key=lambda name: (-widths[codes[name]], name)):
            end = place + sizes[name] * widths[codes[name]]
            found[name] = Part(codes[name], sizes[name], place, end)
            place = end
        return found

    def sizes(self) -> dict[str, int]:
        """Give how many elements each array must have."""
        manifest, domains = self.manifest, len(self.manifest.domains)
        heads = sum((manifest.num_features + 1) * len(entry.classes) for entry in manifest.domains.values())
        return {
            "kernels": sum(entry.kept * prod(manifest.convs[name].kernel) for name, entry in self.layers()),
            "index": sum(entry.num_bytes for entry in self.index),
            "masks": domains * sum(-(-entry.kept // 8) for entry in self.index),
            "norms": domains * sum(prod(self.shape(name)) for name in self.norms),
            "heads": heads,
            "shared": sum(prod(self.shape(name)) for name in self.shared),
        }

    def problem(self) -> str | None:
        """Say what is impossible about the header, if anything."""
        convs = self.manifest.convs
        if len(self.index) != len(convs) or not convs:
            return f"its index is of {len(self.index)} layers, its graph has {len(convs)}"
        return self._wrong_layer() or self._wrong_tensor() or self._wrong_size() or self._wrong_image()

    def _wrong_layer(self) -> str | None:
        seen: dict[str, tuple[object, ...]] = {}
        for operation in self.manifest.graph:
            if isinstance(operation, Conv):
                content = (operation.channels, operation.was, operation.kernel, operation.groups)
                if seen.setdefault(operation.layer, content) != content:
                    return f"its layer {operation.layer!r} appears twice, with different weights"
                was = operation.was or operation.channels
                if was[0] < operation.channels[0] or was[1] < operation.channels[1]:
                    return f"its layer {operation.layer!r} has more channels than before it was pruned"
        return None

    def _wrong_size(self) -> str | None:
        convs, domains = self.manifest.convs, len(self.manifest.domains)
        kernels = sum(conv.num_kernels for conv in convs.values())
        weights = sum(conv.num_kernels * prod(conv.kernel) for conv in convs.values())
        data = max(part.end for part in self.parts().values())
        most = min(MAX_WEIGHTS, FREE_WEIGHTS + WEIGHTS_PER_BYTE * data)
        arrays = domains * (len(convs) + len(self.norms) + 2)
        claims = {
            f"{arrays} arrays for {domains} domains, where {MAX_ARRAYS} are the most": arrays > MAX_ARRAYS,
            f"a network of {weights} weights in {data} bytes, where {most} are the most": weights > most,
            f"{kernels} kernels for {domains} domains, which is too much": kernels * domains > MAX_SWITCHES,
            "more kernels kept than there are": any(e.kept > convs[name].num_kernels for name, e in self.layers()),
            "an index longer than a bit per kernel": any(
                entry.num_bytes > -(-convs[name].num_kernels // 8) for name, entry in self.layers()
            ),
        }
        return next((f"it claims {claim}" for claim, made in claims.items() if made), None)

    def _wrong_tensor(self) -> str | None:
        names = (*self.norms, *self.shared)
        if len(set(names)) < len(names):
            return "it names a tensor twice"
        for name in names:
            number, _, role = name.partition(".")
            if int(number) >= len(self.manifest.graph) or role not in self._shapes(int(number)):
                return f"it names the tensor {name!r}, which no operation has"
        return None

    def _wrong_image(self) -> str | None:
        for name, entry in self.manifest.domains.items():
            given = entry.preprocess
            if given.size != self.manifest.image_size:
                return f"domain {name!r} has images of {given.size} pixels, the network of {self.manifest.image_size}"
            if not all(map(isfinite, (*given.mean, *given.std))) or any(each <= 0 for each in given.std):
                return f"domain {name!r} has an impossible mean or deviation of its pixels"
        return None

    def _shapes(self, number: int) -> dict[str, tuple[int, ...]]:
        operation = self.manifest.graph[number]
        return operation.tensors(self.manifest.shapes[operation.inputs[0]][0])
