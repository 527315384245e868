"""The header of a model file: its manifest, the sizes of its parts, and a checksum."""

from collections.abc import Iterator
from math import isfinite, prod
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from prunus.amounts import plural
from prunus.arrays import DType
from prunus.bundle.coding.index import Code
from prunus.bundle.coding.joint_masks import BITS, num_symbols
from prunus.bundle.dtypes import STORED
from prunus.bundle.eight_bits.checks import wrong_integers
from prunus.bundle.manifest import ConvEntry, Manifest, ManifestPart
from prunus.graph.costs import Claims, allowed_cost, file_cost, too_much
from prunus.graph.limits import FREE_WEIGHTS, MAX_ARRAYS, MAX_COUNT, MAX_SWITCHES, MAX_WEIGHTS, WEIGHTS_PER_BYTE
from prunus.graph.operations import Conv

FORMATS: dict[DType, int] = {"float32": 3, "float16": 3, "bfloat16": 3, "int8": 4}
JOINT_MASKS_FORMAT = 5  # of an 8-bit file whose masks are coded together
FORMAT_VERSION = max(*FORMATS.values(), JOINT_MASKS_FORMAT)
RUN_BYTES = 45  # of memory that decoding takes for each byte of runs
# numpy's names -> those of safetensors, in the order of the file
CODES = {"float32": "F32", "float16": "F16", "uint16": "U16", "int8": "I8", "uint8": "U8"}
EIGHT_BIT_PARTS: dict[str, np.dtype[np.generic]] = {  # of an 8-bit file, besides those of every file
    "wide": np.dtype(np.float16),
    "scales": np.dtype(np.float32),
    "classifiers": np.dtype(np.float32),
    "codings": np.dtype(np.float32),
    "zeros": np.dtype(np.uint8),
}

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
TensorName = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,4})\.[a-z]+$")]  # number of the operation, role


class IndexEntry(NamedTuple):
    """The code of a layer's index, its size, and the number of kernels that the layer keeps."""

    code: Code
    num_bytes: Count
    kept: Count


class Part(NamedTuple):
    """The type and the size of an array, and its first and last byte in the file's data."""

    dtype: np.dtype[np.generic]
    size: int
    begin: int
    end: int

    @property
    def code(self) -> str:
        """Return the type's name in safetensors."""
        return CODES[self.dtype.name]


class FileHeader(ManifestPart):
    """Everything but the numbers.

    The index has an entry per layer, in the order of the graph. `norms` and `shared` name tensors, whose shapes follow
    from the graph. `mask_bytes` is the size of the masks if they are coded together. `sha256` is the checksum of the
    header's text without the digits of the checksum, then of all data.
    """

    format_version: int
    manifest: Manifest
    dtype: DType
    index: tuple[IndexEntry, ...]
    norms: tuple[TensorName, ...]
    shared: tuple[TensorName, ...]
    mask_bytes: Count | None = None
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]

    def layers(self) -> Iterator[tuple[str, IndexEntry]]:
        """Return every layer's name and index."""
        return zip(self.manifest.convs, self.index, strict=True)

    def narrow(self) -> Iterator[tuple[str, ConvEntry, IndexEntry]]:
        """Return the layers whose kernels are in the part `kernels`: all but the wide ones of an 8-bit file."""
        wide = set(self.manifest.wide)
        return ((name, self.manifest.convs[name], entry) for name, entry in self.layers() if name not in wide)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor under `norms` or `shared`."""
        number, _, role = name.partition(".")
        return self._shapes(int(number))[role]

    def parts(self) -> dict[str, Part]:
        """Return the arrays in the order of the file: by type, the widest first, then by name, without gaps."""
        dtypes = dict.fromkeys(("kernels", "heads"), STORED[self.dtype])
        dtypes |= dict.fromkeys(("norms", "shared"), np.dtype(np.float32))
        dtypes |= dict.fromkeys(("index", "masks"), np.dtype(np.uint8))
        dtypes |= EIGHT_BIT_PARTS
        parts: dict[str, Part] = {}
        begin = 0
        types = list(CODES)
        for name, size in sorted(self.sizes().items(), key=lambda item: (types.index(dtypes[item[0]].name), item[0])):
            end = begin + size * dtypes[name].itemsize
            parts[name] = Part(dtypes[name], size, begin, end)
            begin = end
        return parts

    def sizes(self) -> dict[str, int]:
        """Return the number of elements of each array."""
        manifest = self.manifest
        domains = len(manifest.domains)
        classes = sum(len(entry.classes) for entry in manifest.domains.values())
        sizes = {
            "kernels": sum(entry.kept * prod(conv.kernel) for _, conv, entry in self.narrow()),
            "index": sum(entry.num_bytes for entry in self.index),
            "masks": self.plain_mask_bytes if self.mask_bytes is None else self.mask_bytes,
            "norms": domains * sum(prod(self.shape(name)) for name in self.norms),
            "heads": classes * (manifest.num_features + 1),
            "shared": sum(prod(self.shape(name)) for name in self.shared),
        }
        return sizes | self._eight_bit_sizes(classes) if self.dtype == "int8" else sizes

    @property
    def plain_mask_bytes(self) -> int:
        """Return the size of the masks if they are not coded together, as in memory."""
        return len(self.manifest.domains) * sum(-(-entry.kept // 8) for entry in self.index)

    def _eight_bit_sizes(self, classes: int) -> dict[str, int]:
        manifest = self.manifest
        kept = sum(entry.kept * prod(manifest.convs[name].kernel) for name, entry in self.layers())
        codings = len(manifest.domains) * len(manifest.coded)
        return {
            "heads": classes * manifest.num_features,
            "wide": kept - sum(entry.kept * prod(conv.kernel) for _, conv, entry in self.narrow()),
            "scales": sum(conv.out_channels for _, conv, _ in self.narrow()),
            "classifiers": 2 * classes,
            "codings": codings,
            "zeros": codings,
        }

    def problem(self, values: int) -> str | None:
        """Return what is wrong with the header, whose JSON has so many values; None if nothing is."""
        convs = self.manifest.convs
        if len(self.index) != len(convs) or not convs:
            return f"its index has {plural(len(self.index), 'layer')}, but its graph has {len(convs)}"
        return (
            self._wrong_layer()
            or self._wrong_tensor()
            or self._wrong_integers()
            or self._wrong_size()
            or self._wrong_image()
            or self._too_expensive(values)
        )

    def claims(self, values: int) -> Claims:
        """Return what the header declares besides its graph."""
        convs, domains = self.manifest.convs, self.manifest.domains
        return Claims(
            data_bytes=self._data_bytes(),
            decoded_bytes=self._decoded_bytes(),
            values=values,
            arrays=self._domain_arrays() + 2 * len(convs) + len(self.shared),
            domains=len(domains),
            classes=max(len(entry.classes) for entry in domains.values()),
            kept={name: entry.kept for name, entry in self.layers()},
            index_bytes=max(
                2 * convs[name].num_kernels + (RUN_BYTES * entry.num_bytes if entry.code == "runs" else 0)
                for name, entry in self.layers()
            ),
            has_ones=any(name.endswith(".ones") for name in (*self.norms, *self.shared)),
            integers=self.manifest.integers,
        )

    def _domain_arrays(self) -> int:
        own = len(self.manifest.convs) + len(self.norms) + (5 if self.dtype == "int8" else 2)
        return len(self.manifest.domains) * own

    def _too_expensive(self, values: int) -> str | None:
        claims = self.claims(values)
        return too_much(file_cost(self.manifest.graph, self.manifest.shapes, claims), allowed_cost(claims.data_bytes))

    def _data_bytes(self) -> int:
        return max(part.end for part in self.parts().values())

    def _decoded_bytes(self) -> int:
        """Return what decoding masks takes: their bytes before deflate, the bits of a layer, and the masks."""
        if self.mask_bytes is None:
            return 0
        domains, kept = len(self.manifest.domains), [entry.kept for entry in self.index]
        return num_symbols(domains, kept) + 3 * BITS * num_symbols(domains, [max(kept)]) + self.plain_mask_bytes

    def _wrong_layer(self) -> str | None:
        seen: dict[str, tuple[object, ...]] = {}
        for operation in self.manifest.graph:
            if isinstance(operation, Conv):
                content = (operation.channels, operation.was, operation.kernel, operation.groups)
                if seen.setdefault(operation.layer, content) != content:
                    return f"its layer {operation.layer!r} appears twice, with different weights"
                was = operation.was or operation.channels
                if was[0] < operation.channels[0] or was[1] < operation.channels[1]:
                    return f"its layer {operation.layer!r} has more channels than before pruning"
        return None

    def _wrong_size(self) -> str | None:
        convs, domains = self.manifest.convs, len(self.manifest.domains)
        kernels = sum(conv.num_kernels for conv in convs.values())
        weights = sum(conv.num_kernels * prod(conv.kernel) for conv in convs.values())
        data = self._data_bytes()
        most = min(MAX_WEIGHTS, FREE_WEIGHTS + WEIGHTS_PER_BYTE * data)
        arrays = self._domain_arrays()
        claims = {
            f"{arrays} arrays for {domains} domains; at most {MAX_ARRAYS} are allowed": arrays > MAX_ARRAYS,
            f"{weights} weights in {data} bytes; at most {most} are allowed": weights > most,
            f"{kernels} kernels for {domains} domains; at most {MAX_SWITCHES} masked kernels are allowed": kernels
            * domains
            > MAX_SWITCHES,
            "more kept kernels than a layer has": any(
                entry.kept > convs[name].num_kernels for name, entry in self.layers()
            ),
            "more bytes of masks than a bit per kernel takes": (self.mask_bytes or 0) > self.plain_mask_bytes,
            "an index of more than one bit per kernel": any(
                entry.num_bytes > -(-convs[name].num_kernels // 8) for name, entry in self.layers()
            ),
        }
        return next((f"it declares {claim}" for claim, is_wrong in claims.items() if is_wrong), None)

    def _wrong_tensor(self) -> str | None:
        names = (*self.norms, *self.shared)
        if len(set(names)) < len(names):
            return "it lists a tensor twice"
        for name in names:
            number, _, role = name.partition(".")
            if int(number) >= len(self.manifest.graph) or role not in self._shapes(int(number)):
                return f"it lists the tensor {name!r}, which no operation has"
        return None

    def _wrong_integers(self) -> str | None:
        version = FORMATS[self.dtype] if self.mask_bytes is None else JOINT_MASKS_FORMAT
        if self.format_version != version:
            return f"a file of {self.dtype} has format version {version}, not {self.format_version}"
        if self.mask_bytes is not None and self.dtype != "int8":
            return f"its masks are coded together, but its type is {self.dtype}"
        if self.dtype == "int8":
            return wrong_integers(self.manifest, (*self.norms, *self.shared))
        if self.manifest.integers or self.manifest.wide:
            return f"it lists 8-bit operations or layers, but its type is {self.dtype}"
        return None

    def _wrong_image(self) -> str | None:
        for name, entry in self.manifest.domains.items():
            size, mean, std = entry.preprocess.size, entry.preprocess.mean, entry.preprocess.std
            if size != self.manifest.image_size:
                return f"domain {name!r} has images of {size} pixels, but the network takes {self.manifest.image_size}"
            if not all(map(isfinite, (*mean, *std))) or min(std) <= 0:
                return f"domain {name!r} has an invalid mean or standard deviation of its pixels"
        return None

    def _shapes(self, number: int) -> dict[str, tuple[int, ...]]:
        operation = self.manifest.graph[number]
        return operation.tensors(self.manifest.shapes[operation.inputs[0]][0])
