"""Read and write `model.prunus`: a safetensors file whose metadata holds the manifest as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from prunus.bundle.bundle import Array, Bundle
from prunus.bundle.manifest import FORMAT_VERSION, Manifest
from prunus.errors import BundleError
from prunus.files import write_atomically

METADATA_KEY = "prunus"


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write a model file."""
    write_atomically(path, bundle_bytes(bundle))


def bundle_bytes(bundle: Bundle) -> bytes:
    """Give the content of the model file; the same bundle gives the same bytes."""
    arrays = {name: np.ascontiguousarray(array) for name, array in bundle.arrays.items()}
    # one metadata key only: the library writes several in no fixed order
    return save(arrays, {METADATA_KEY: bundle.manifest.model_dump_json()})


def read_bundle(path: Path) -> Bundle:
    """Read a model file and check that every array is there, of the right shape."""
    if path.is_dir():
        raise BundleError(
            f"{path} is a folder, not a model file; make one with: prunus prune {path} --out model.prunus"
        )
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if METADATA_KEY not in metadata:
                raise BundleError(
                    f"{path} is a safetensors file, but not a Prunus model; make one with: prunus prune RUN"
                )
            manifest = _parse_manifest(path, metadata[METADATA_KEY])
            arrays: dict[str, Array] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except FileNotFoundError:
        raise BundleError(f"there is no model file {path}") from None
    except (SafetensorError, OSError, TypeError) as error:
        raise BundleError(f"{path} is damaged or not a Prunus model: {error}") from None
    bundle = Bundle(manifest, arrays)
    _check_arrays(path, bundle)
    return bundle


def _parse_manifest(path: Path, text: str) -> Manifest:
    try:
        version = json.loads(text).get("format_version")
        if version != FORMAT_VERSION:
            raise BundleError(f"{path} has the format version {version!r}, this Prunus reads {FORMAT_VERSION}")
        return Manifest.model_validate_json(text)
    except (json.JSONDecodeError, AttributeError, ValidationError) as error:
        raise BundleError(f"{path}: its manifest cannot be read: {str(error).splitlines()[0]}") from None


def _check_arrays(path: Path, bundle: Bundle) -> None:
    for name, (shape, dtype) in _expected(path, bundle).items():
        array = bundle.arrays.get(name)
        if array is None:
            raise BundleError(f"{path} lacks {name!r}")
        if array.shape != shape or array.dtype != dtype:
            raise BundleError(
                f"{path}: {name!r} should be {dtype} of shape {shape}, is {array.dtype} of shape {array.shape}"
            )


def _expected(path: Path, bundle: Bundle) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    floats, bits = np.dtype(np.float32), np.dtype(np.uint8)
    expected: dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}
    for layer, conv in bundle.manifest.convs.items():
        packed = bundle.arrays.get(f"union/{layer}")
        if packed is None or packed.dtype != bits or packed.shape != (-(-conv.num_kernels // 8),):
            raise BundleError(f"{path}: 'union/{layer}' does not fit a layer of {conv.num_kernels} kernels")
        kept = int(bundle.union(layer).sum())
        expected[f"kernels/{layer}"] = ((kept, *conv.kernel), floats)
        expected |= {f"mask/{domain}/{layer}": ((-(-kept // 8),), bits) for domain in bundle.domains}
    for domain, entry in bundle.manifest.domains.items():
        expected[f"head/{domain}/weight"] = ((len(entry.classes), bundle.manifest.num_features), floats)
        expected[f"head/{domain}/bias"] = ((len(entry.classes),), floats)
    for name in bundle.arrays:
        if name.startswith(("norm/", "shared/")):
            expected[name] = (bundle.arrays[name].shape, floats)
    return expected
