"""Read and write `model.prunus`: a safetensors file with a few arrays and the header as JSON in its metadata."""

import hashlib
from io import BufferedReader
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from safetensors.numpy import save

from prunus.arrays import Array, Bytes, DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.index import encode_index
from prunus.bundle.coding.joint_masks import encode_masks, is_worth_it
from prunus.bundle.container import (
    METADATA_KEY,
    check_parts,
    container_size,
    count_values,
    header_text,
    parse_json,
    read_container,
)
from prunus.bundle.dtypes import STORED, all_finite, encode
from prunus.bundle.eight_bits.checks import check_codes
from prunus.bundle.eight_bits.splitting import planned
from prunus.bundle.header import FORMAT_VERSION, FORMATS, JOINT_MASKS_FORMAT, FileHeader, IndexEntry
from prunus.bundle.reading import JOINT_MASKS, check_arrays, file_arrays, read_arrays
from prunus.errors import BundleError, UnknownNameError
from prunus.files import write_atomically

VERSIONS = sorted({*FORMATS.values(), JOINT_MASKS_FORMAT})
READABLE = f"{', '.join(map(str, VERSIONS[:-1]))} and {VERSIONS[-1]}"


def write_bundle(path: Path, bundle: Bundle, dtype: DType = "float32") -> None:
    """Write a model file."""
    write_atomically(path, bundle_bytes(bundle, dtype))


def bundle_bytes(bundle: Bundle, dtype: DType = "float32") -> bytes:
    """Return the content of the model file; the same bundle gives the same bytes."""
    if dtype == "int8" and bundle.dtype != "int8":
        raise BundleError("8-bit numbers must be chosen with training images; write the file with: prunus prune RUN")
    header, coded = _header(bundle, dtype)
    if dtype == "int8":
        check_codes(bundle.manifest, bundle.arrays)
    for name, array in bundle.arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise BundleError(
                f"{name!r} contains numbers that are not finite; train again with a smaller learning rate"
            )
    arrays = _joined(header, bundle.arrays | coded)
    digest = hashlib.sha256(_text(header).encode())
    for part in header.parts():
        digest.update(arrays[part].data)
    # a single metadata key, because the library does not write several in a fixed order
    return save(arrays, {METADATA_KEY: _text(header.model_copy(update={"sha256": digest.hexdigest()}))})


def bundle_parts(bundle: Bundle, dtype: DType = "float32") -> dict[str, int]:
    """Return the size in bytes that every part of the model file would have."""
    header, _ = _header(bundle, dtype)
    return _sizes(header)


def bundle_size(bundle: Bundle, dtype: DType = "float32") -> int:
    """Return the size in bytes of the model file without writing it or converting its numbers.

    As int8, a bundle of floats takes at most this, as long as no layer stays wide. Its masks count as plain, so that
    the size does not depend on which domain uses which kernel.
    """
    header, _ = _header(bundle, dtype)
    checksum = "0" * hashlib.sha256().digest_size * 2
    return container_size(_text(header.model_copy(update={"sha256": checksum})), header.parts())


def _header(bundle: Bundle, dtype: DType) -> tuple[FileHeader, dict[str, Bytes]]:
    """Return the header of a bundle's file, without its checksum, and the encoded arrays: index of a layer, masks."""
    if dtype not in STORED:
        raise UnknownNameError("dtype", dtype, STORED)
    if dtype != "int8" and bundle.dtype == "int8":
        raise BundleError(f"an 8-bit model cannot be written as {dtype}; write it from its run with: prunus prune RUN")
    masks = _joint_masks(bundle) if bundle.dtype == dtype == "int8" else None
    bundle = planned(bundle) if bundle.dtype != dtype == "int8" else bundle
    indices = {layer: encode_index(bundle.kept(layer)) for layer in bundle.manifest.convs}
    header = FileHeader(
        format_version=FORMATS[dtype] if masks is None else JOINT_MASKS_FORMAT,
        manifest=bundle.manifest,
        dtype=dtype,
        index=tuple(
            IndexEntry(code, index.size, len(bundle.arrays[f"kernels/{layer}"]))
            for layer, (code, index) in indices.items()
        ),
        norms=_names(bundle, f"norm/{bundle.domains[0]}/"),
        shared=_names(bundle, "shared/"),
        mask_bytes=None if masks is None else masks.size,
        sha256="",
    )
    if problem := header.problem(count_values(_text(header))):
        raise BundleError(f"the model cannot be written: {problem}")
    coded = {f"union/{layer}": index for layer, (_, index) in indices.items()}
    return header, coded if masks is None else coded | {JOINT_MASKS: masks}


def _joint_masks(bundle: Bundle) -> Bytes | None:
    """Code the masks of all domains together; None if plain ones are nearly as small."""
    masks = bundle.kept_masks()
    coded = encode_masks(masks)
    return coded if is_worth_it(coded, masks) else None


def read_bundle(path: Path) -> Bundle:
    """Read a model file; refuse a damaged or inconsistent one before its numbers are used."""
    try:
        with _open(path) as file:
            header, text = _read_header(file, path.stat().st_size)
            digest = hashlib.sha256((text.replace(header.sha256, "", 1) if header.sha256 else text).encode())
            arrays = read_arrays(file, header, digest)
        if digest.hexdigest() != header.sha256:
            raise BundleError(
                "it is damaged: its checksum does not match its content; copy it again, or write it again with: "
                "prunus prune RUN"
            )
        check_arrays(header, arrays)
    except FileNotFoundError:
        raise BundleError(f"there is no model file {path}") from None
    except MemoryError:
        raise BundleError(f"{path}: not enough memory to read it") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise BundleError(f"cannot read {path}: {reason}; check the path and its permissions") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, BundleError):
            raise BundleError(f"{path}: {error}") from None
        raise BundleError(f"{path} is damaged or not a Prunus model: {str(error).splitlines()[0]}") from None
    return Bundle(header.manifest, arrays)


def part_sizes(path: Path) -> dict[str, int]:
    """Return the size in bytes of every part of a model file."""
    with _open(path) as file:
        header, _ = _read_header(file, path.stat().st_size)
    return _sizes(header)


def _sizes(header: FileHeader) -> dict[str, int]:
    return {name: part.end - part.begin for name, part in header.parts().items()}


def _open(path: Path) -> BufferedReader:
    if path.is_dir():
        raise BundleError("it is a folder, not a model file; write one with: prunus.prune('RUN', 'model.prunus')")
    if path.exists() and not path.is_file():
        raise BundleError("it is not a regular file")
    return path.open("rb")


def _read_header(file: BufferedReader, size: int) -> tuple[FileHeader, str]:
    """Read and check everything before the numbers; return the header and its text."""
    container = read_container(file, size)
    text = header_text(container)
    if text is None:
        raise BundleError("it is a safetensors file, but not a Prunus model; write one with: prunus prune RUN")
    version, is_checkpoint = _version(text)
    if is_checkpoint:
        raise BundleError("it is a checkpoint of a training run, not a model file; write one with: prunus prune RUN")
    if version not in VERSIONS or isinstance(version, bool):
        is_newer = isinstance(version, int) and version > FORMAT_VERSION
        raise BundleError(
            f"it has format version {version!r}, but this version of Prunus reads {READABLE}; "
            + ("update Prunus" if is_newer else "write it again with: prunus prune RUN")
        )
    try:
        header = FileHeader.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise BundleError(f"its header cannot be read: {location}: {first['msg']}") from None
    if problem := header.problem(count_values(text)):
        raise BundleError(problem)
    check_parts(container, header.parts(), size - file.tell())
    return header, text


def _version(text: str) -> tuple[object, bool]:
    """Return the format version of a header, and whether it is a checkpoint's."""
    content = parse_json(text)
    if not isinstance(content, dict):
        return None, False
    return content.get("format_version"), "identity" in content and "manifest" not in content


def _text(header: FileHeader) -> str:
    return header.model_dump_json(exclude_defaults=True)


def _names(bundle: Bundle, prefix: str) -> tuple[str, ...]:
    """Return the names of the tensors under a prefix, by the number of their operation, then by role."""
    names = [name.removeprefix(prefix) for name in bundle.arrays if name.startswith(prefix)]
    return tuple(sorted(names, key=lambda name: (int(name.partition(".")[0]), name)))


def _joined(header: FileHeader, arrays: dict[str, Array]) -> dict[str, Array]:
    """Join the arrays of every part, converted to the types of the file."""
    joined: dict[str, Array] = {}
    parts = header.parts()
    for part, shapes in file_arrays(header).items():
        pieces = [arrays[name].reshape(-1) for name in shapes]
        joined[part] = np.concatenate(pieces) if pieces else np.zeros(0, np.float32)
        if part not in ("kernels", "heads") or header.dtype == "int8":
            joined[part] = joined[part].astype(parts[part].dtype, copy=False)
            continue
        joined[part] = encode(joined[part], header.dtype)
        if not all_finite(joined[part]):
            raise BundleError(f"a weight is too large for {header.dtype}; write the model as float32")
    return joined
