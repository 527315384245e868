"""Add a domain to a bundle, or remove one, array by array.

Stored numbers are copied as they are. Only their places change: a mask has one bit per stored kernel, so it changes
with the kernels that are stored.

Legend: D = domains, O = output channels, I = input channels of one group, K = stored kernels of a layer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from prunus.arrays import Array, Bools, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.dtypes import encode
from prunus.bundle.kernel_order import to_stored
from prunus.bundle.manifest import DomainEntry
from prunus.errors import BundleError

TensorKey = tuple[int, str]  # the number of an operation, and the role of its tensor


@dataclass(frozen=True)
class DomainParts:
    """Everything that belongs to one domain of a model file.

    Args:
        masks: layer -> (O, I): the kernels that it uses.
        weights: layer -> (O, I, height, width), of which the kernels that the file lacks are added to it.
        tensors: its scales and biases.
        head: the weight and the bias of its classifier.
    """

    entry: DomainEntry
    masks: Mapping[str, Bools]
    weights: Mapping[str, Floats]
    tensors: Mapping[TensorKey, Floats]
    head: tuple[Floats, Floats]


def add_domain(bundle: Bundle, name: str, parts: DomainParts) -> Bundle:
    """Return a bundle with one more domain, the last one, or with another domain in place of one of the same name."""
    check_floats(bundle)
    if parts.entry.preprocess.size != bundle.manifest.image_size:
        raise BundleError(
            f"domain {name!r} has images of {parts.entry.preprocess.size} pixels, but the model takes "
            f"{bundle.manifest.image_size}"
        )
    domains = dict(bundle.manifest.domains) | {name: parts.entry}
    masks = {domain: _masks(bundle, domain) for domain in bundle.domains} | {name: parts.masks}
    tensors = _tensors(bundle, bundle.domains) | {name: parts.tensors}
    weight, bias = (encode(np.asarray(array, np.float32), bundle.dtype) for array in parts.head)
    arrays = _convolutions(bundle, masks, parts.weights) | _norms(bundle, tensors) | _heads(bundle, domains)
    arrays |= {f"head/{name}/weight": weight, f"head/{name}/bias": bias}
    return Bundle(bundle.manifest.model_copy(update={"domains": domains}), arrays)


def remove_domain(bundle: Bundle, name: str) -> Bundle:
    """Return a bundle without a domain, and without the kernels that only this domain used."""
    bundle.check_domain(name)
    domains = {domain: entry for domain, entry in bundle.manifest.domains.items() if domain != name}
    if not domains:
        raise BundleError(f"{name!r} is the only domain of the model, and a model needs one")
    masks = {domain: _masks(bundle, domain) for domain in domains}
    tensors = _tensors(bundle, domains)
    arrays = _convolutions(bundle, masks, {}) | _norms(bundle, tensors) | _heads(bundle, domains)
    arrays |= _scales(bundle, domains)
    return Bundle(bundle.manifest.model_copy(update={"domains": domains}), arrays)


def check_floats(bundle: Bundle) -> None:
    """Refuse to add a domain to an 8-bit bundle: what is learned on rounded weights would have to be rounded again."""
    if bundle.dtype == "int8":
        raise BundleError(
            "a domain cannot be added to an 8-bit model file; add it to a file of floats, which is written with: "
            "prunus.prune('RUN', 'model.prunus', dtype='float32')"
        )


def _masks(bundle: Bundle, domain: str) -> dict[str, Bools]:
    return {layer: bundle.mask(domain, layer) for layer in bundle.manifest.convs}


def _tensors(bundle: Bundle, domains: Iterable[str]) -> dict[str, Mapping[TensorKey, Floats]]:
    """Return the scales, biases and kernels over ones of some domains."""
    names = {name.rpartition("/")[2] for name in bundle.arrays if name.startswith(("norm/", "shared/"))}
    keys = [(int(number), role) for number, role in (name.split(".") for name in names)]
    rows = {domain: {key: bundle.tensor(domain, *key) for key in keys} for domain in domains}
    return {domain: {key: row for key, row in own.items() if row is not None} for domain, own in rows.items()}


def _convolutions(
    bundle: Bundle, masks: Mapping[str, Mapping[str, Bools]], weights: Mapping[str, Floats]
) -> dict[str, Array]:
    """Store the kernels that any domain uses: those of the bundle as they are, others from the weights."""
    arrays: dict[str, Array] = {}
    for layer, conv in bundle.manifest.convs.items():
        kept, (_, kernels) = bundle.kept(layer), bundle.stored(layer)
        used = {domain: to_stored(mask[layer], conv) for domain, mask in masks.items()}
        union = np.logical_or.reduce(list(used.values()))
        whole = np.zeros((conv.num_kernels, *conv.kernel), kernels.dtype)
        if (union & ~kept).any():
            whole[:] = encode(to_stored(np.asarray(weights[layer], np.float32), conv), bundle.dtype)
        whole[kept] = kernels
        arrays[f"union/{layer}"] = pack_bits(union)
        arrays[f"kernels/{layer}"] = whole[union]
        arrays |= {f"mask/{domain}/{layer}": pack_bits(mask[union]) for domain, mask in used.items()}
    return arrays


def _norms(bundle: Bundle, tensors: Mapping[str, Mapping[TensorKey, Floats]]) -> dict[str, Array]:
    """Store tensors that are the same in all domains once, and the others for each domain."""
    manifest = bundle.manifest
    arrays: dict[str, Array] = {}
    for key in sorted({key for own in tensors.values() for key in own}):
        number, role = key
        operation = manifest.graph[number]
        shape = operation.tensors(manifest.shapes[operation.inputs[0]][0])[role]
        neutral = np.full(shape, 1.0 if role == "scale" else 0.0, np.float32)
        rows = {domain: np.asarray(own.get(key, neutral), np.float32) for domain, own in tensors.items()}
        first = next(iter(rows.values()))
        if all(np.array_equal(row, neutral) for row in rows.values()):
            continue
        if all(np.array_equal(row, first) for row in rows.values()):
            arrays[f"shared/{number}.{role}"] = first
        else:
            arrays |= {f"norm/{domain}/{number}.{role}": row for domain, row in rows.items()}
    return arrays


def _heads(bundle: Bundle, domains: Mapping[str, DomainEntry]) -> dict[str, Array]:
    names = [f"head/{domain}/{role}" for domain in domains for role in ("weight", "bias", "scale")]
    return {name: bundle.arrays[name] for name in names if name in bundle.arrays}


def _scales(bundle: Bundle, domains: Mapping[str, DomainEntry]) -> dict[str, Array]:
    """Return the scales of an 8-bit bundle: of its layers, and of the values of some domains."""
    names = [f"scale/{layer}" for layer in bundle.manifest.convs]
    names += [f"coding/{domain}/{role}" for domain in domains for role in ("scale", "zero")]
    return {name: bundle.arrays[name] for name in names if name in bundle.arrays}
