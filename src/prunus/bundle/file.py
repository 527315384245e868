"""Read and write `model.prunus`: a safetensors file with six arrays, whose metadata holds the header as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from prunus.bundle.bits import pack_bits
from prunus.bundle.bundle import Array, Bundle
from prunus.bundle.dtypes import STORED, DType, decode, encode
from prunus.bundle.header import FORMAT_VERSION, FileHeader, IndexEntry, TensorEntry, checksum
from prunus.bundle.index import decode_index, encode_index
from prunus.errors import BundleError, UnknownNameError
from prunus.files import write_atomically

METADATA_KEY = "prunus"
MAX_HEADER = 2**23  # characters


def write_bundle(path: Path, bundle: Bundle, dtype: DType = "float32") -> None:
    """Write a model file."""
    write_atomically(path, bundle_bytes(bundle, dtype))


def bundle_bytes(bundle: Bundle, dtype: DType = "float32") -> bytes:
    """Give the content of the model file; the same bundle gives the same bytes."""
    if dtype not in STORED:
        raise UnknownNameError("dtype", dtype, STORED)
    layers = list(bundle.manifest.convs)
    coded = {layer: encode_index(bundle.union(layer)) for layer in layers}
    norms = _entries(bundle, f"norm/{bundle.domains[0]}/")
    header = FileHeader(
        format_version=FORMAT_VERSION,
        manifest=bundle.manifest,
        dtype=dtype,
        index={
            layer: IndexEntry(code=code, num_bytes=index.size, kept=len(bundle.arrays[f"kernels/{layer}"]))
            for layer, (code, index) in coded.items()
        },
        norms=norms,
        shared=_entries(bundle, "shared/"),
    )
    masks = [bundle.arrays[f"mask/{domain}/{layer}"] for domain in bundle.domains for layer in layers]
    heads = [bundle.arrays[f"head/{domain}/{key}"] for domain in bundle.domains for key in ("weight", "bias")]
    own = [bundle.arrays[f"norm/{domain}/{entry.name}"] for domain in bundle.domains for entry in norms]
    shared = [bundle.arrays[f"shared/{entry.name}"] for entry in header.shared]
    arrays: dict[str, Array] = {
        "kernels": encode(_joined([bundle.arrays[f"kernels/{layer}"] for layer in layers], np.float32), dtype),
        "index": _joined([index for _, index in coded.values()], np.uint8),
        "masks": _joined(masks, np.uint8),
        "norms": _joined(own, np.float32),
        "heads": encode(_joined(heads, np.float32), dtype),
        "shared": _joined(shared, np.float32),
    }
    if bad := [
        name for name, array in bundle.arrays.items() if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]:
        raise BundleError(f"{bad[0]!r} holds numbers that are not finite; train again with a smaller rate")
    digits = checksum(header.model_dump_json(), {name: array.tobytes() for name, array in arrays.items()})
    # one metadata key only: the library writes several in no fixed order
    return save(arrays, {METADATA_KEY: header.model_copy(update={"sha256": digits}).model_dump_json()})


def read_bundle(path: Path) -> Bundle:
    """Read a model file; whatever is not exactly as it was written is refused, before its numbers are used."""
    if path.is_dir():
        raise BundleError(
            f"{path} is a folder, not a model file; make one with: prunus prune {path} --out model.prunus"
        )
    if path.exists() and not path.is_file():
        raise BundleError(f"{path} is not a file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if METADATA_KEY not in metadata:
                raise BundleError(
                    f"{path} is a safetensors file, but not a Prunus model; make one with: prunus prune RUN"
                )
            text = metadata[METADATA_KEY]
            header = _parse_header(path, text)
            _check_parts(path, header, {name: file.get_slice(name) for name in file.keys()})  # noqa: SIM118  # not a dict
            arrays: dict[str, Array] = {name: file.get_tensor(name) for name in header.sizes()}
    except FileNotFoundError:
        raise BundleError(f"there is no model file {path}") from None
    except (SafetensorError, OSError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{path} is damaged or not a Prunus model: {error}") from None
    unsealed = text.replace(header.sha256, "", 1) if header.sha256 else text
    if checksum(unsealed, {name: array.tobytes() for name, array in arrays.items()}) != header.sha256:
        raise BundleError(f"{path} is damaged: its checksum does not fit its content; copy or make it again")
    try:
        return Bundle(header.manifest, _taken_apart(header, arrays))
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from None


def _parse_header(path: Path, text: str) -> FileHeader:
    if len(text) > MAX_HEADER:
        raise BundleError(f"{path}: its header has {len(text)} characters, {MAX_HEADER} are the most")
    try:
        version = json.loads(text).get("format_version")
        if version != FORMAT_VERSION:
            raise BundleError(
                f"{path} has the format version {version!r}, this Prunus reads {FORMAT_VERSION}; make it again with: "
                "prunus prune RUN"
            )
        header = FileHeader.model_validate_json(text)
    except (json.JSONDecodeError, AttributeError, ValidationError, RecursionError) as error:
        raise BundleError(f"{path}: its header cannot be read: {str(error).splitlines()[0]}") from None
    if problem := header.problem():
        raise BundleError(f"{path}: {problem}")
    return header


def _check_parts(path: Path, header: FileHeader, slices: dict[str, object]) -> None:
    """Compare what the file holds with what its header says, before any of it is read."""
    sizes, stored = header.sizes(), STORED[header.dtype]
    kinds = {"kernels": stored, "heads": stored, "index": np.dtype(np.uint8), "masks": np.dtype(np.uint8)}
    codes = {"float32": "F32", "float16": "F16", "uint16": "U16", "uint8": "U8"}
    found = {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}  # type: ignore[attr-defined]
    wanted = {name: ([size], codes[kinds.get(name, np.dtype(np.float32)).name]) for name, size in sizes.items()}
    if found != wanted:
        wrong = next(name for name in sorted(found.keys() | wanted.keys()) if found.get(name) != wanted.get(name))
        raise BundleError(f"{path}: its part {wrong!r} should be {wanted.get(wrong)}, is {found.get(wrong)}")


def _taken_apart(header: FileHeader, arrays: dict[str, Array]) -> dict[str, Array]:
    """Cut the parts of a file into the arrays of a bundle."""
    manifest = header.manifest
    found: dict[str, Array] = {}
    numbers = _Cutter(decode(arrays["kernels"], header.dtype))
    index, masks = _Cutter(arrays["index"]), _Cutter(arrays["masks"])
    for layer, entry in header.index.items():
        conv = manifest.convs[layer]
        kept = decode_index(entry.code, index.take(entry.num_bytes).astype(np.uint8), conv.num_kernels)
        if int(kept.sum()) != entry.kept:
            raise BundleError(f"layer {layer!r} should keep {entry.kept} kernels, its index keeps {int(kept.sum())}")
        found[f"union/{layer}"] = pack_bits(kept)
        found[f"kernels/{layer}"] = numbers.take(
            entry.kept * conv.kernel[0] * conv.kernel[1], (entry.kept, *conv.kernel)
        )
    for domain in manifest.domains:
        found |= {f"mask/{domain}/{layer}": masks.take(-(-each.kept // 8)) for layer, each in header.index.items()}
    norms, heads, shared = (
        _Cutter(arrays["norms"]),
        _Cutter(decode(arrays["heads"], header.dtype)),
        _Cutter(arrays["shared"]),
    )
    for domain, each in manifest.domains.items():
        found |= {f"norm/{domain}/{entry.name}": norms.take(entry.size, entry.shape) for entry in header.norms}
        shape = (len(each.classes), manifest.num_features)
        found[f"head/{domain}/weight"] = heads.take(shape[0] * shape[1], shape)
        found[f"head/{domain}/bias"] = heads.take(shape[0])
    return found | {f"shared/{entry.name}": shared.take(entry.size, entry.shape) for entry in header.shared}


class _Cutter:
    """Takes one piece after the other off an array."""

    def __init__(self, array: Array) -> None:
        self._array, self._place = array, 0

    def take(self, count: int, shape: Sequence[int] | None = None) -> Array:
        """Take the next piece."""
        piece = self._array[self._place : self._place + count]
        self._place += count
        return piece if shape is None else piece.reshape(shape)


def _entries(bundle: Bundle, prefix: str) -> tuple[TensorEntry, ...]:
    return tuple(TensorEntry(name=name, shape=array.shape) for name, array in sorted(bundle.named(prefix).items()))


def _joined(arrays: Sequence[Array], dtype: type[np.generic]) -> Array:
    def pieces() -> Iterator[Array]:
        yield np.zeros(0, dtype=dtype)
        for array in arrays:
            yield array.reshape(-1)

    return np.concatenate(list(pieces())).astype(dtype)


def part_sizes(path: Path) -> dict[str, int]:
    """Give the bytes of every array of a model file, as they lie on disk."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        container = json.loads(file.read(length))
    return {
        name: entry["data_offsets"][1] - entry["data_offsets"][0]
        for name, entry in container.items()
        if name != "__metadata__"
    }
