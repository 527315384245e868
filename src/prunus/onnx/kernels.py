"""Kernels in ONNX models as they are in the model file: only those that are used, once for all domains.

A dense runtime needs dense weights with zeros, which are several times larger, and another set for each domain. The
models therefore hold the kept kernels as rows, and bits that say which rows a domain uses and where they belong. Nodes
make dense weights of these. They depend on no input, so runtimes compute them once, when they load a model.

Legend: D = domains, O = output channels, I = input channels of one group, R = rows, P = positions, O x I of all layers.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from prunus.arrays import Array, Bools, Integers
from prunus.bundle.bundle import Bundle
from prunus.graph.cut import Channels
from prunus.graph.network import GraphNetwork
from prunus.onnx.graph import OnnxGraph

Table = tuple[int, int, str]  # height, width and type of its kernels
Stored = type[np.uint8 | np.float16 | np.float32]
WEIGHT_ZERO = 128  # the code of a weight of zero


class KernelRows:
    """The kept kernels of some layers as rows: one table per window and type, whose row 0 is zero."""

    def __init__(self, bundle: Bundle, layers: Sequence[str]) -> None:
        self.keys: dict[str, Table] = {}
        self.numbers: dict[str, Integers] = {}  # layer -> (O, I): the row of each kernel, 0 if it is not kept
        self.tables: dict[Table, Array] = {}
        rows: dict[Table, list[Array]] = {}
        for layer in layers:
            (height, width), dtype = bundle.manifest.convs[layer].kernel, kernel_type(bundle, layer)
            key = (height, width, np.dtype(dtype).name)
            parts = rows.setdefault(key, [np.full((1, height * width), zero_of(dtype), dtype)])
            kept_OI = bundle.union(layer)
            kernels = stored_weight(bundle, layer, kept_OI)[kept_OI]
            self.keys[layer] = key
            self.numbers[layer] = np.zeros(kept_OI.shape, dtype=np.int64)
            self.numbers[layer][kept_OI] = sum(map(len, parts)) + np.arange(len(kernels))
            parts.append(kernels.reshape(len(kernels), height * width))
        self.tables = {key: np.concatenate(parts) for key, parts in rows.items()}

    def of_domain(self, network: GraphNetwork, channels: Mapping[str, Channels]) -> dict[str, Integers]:
        """Return the rows of a domain's cut network: layer -> (O, I), 0 for kernels that it does not use.

        Args:
            channels: those that were left of each layer.
        """
        return {
            layer: numbers_OI[channels[layer][0]][:, channels[layer][1]] * network.masks[layer][0]
            for layer, numbers_OI in self.numbers.items()
        }


def domain_weights(
    bundle: Bundle, network: GraphNetwork, channels: Mapping[str, Channels], layers: Sequence[str]
) -> dict[str, Array]:
    """Return the dense weights of some layers of a domain's cut network, as models hold them."""
    weights: dict[str, Array] = {}
    for layer in layers:
        outputs, inputs = channels[layer]
        weight = stored_weight(bundle, layer, bundle.union(layer))[outputs][:, inputs]
        weights[layer] = np.where(
            network.masks[layer][0][:, :, None, None], weight, weight.dtype.type(zero_of(weight.dtype))
        )
    return weights


def stored_weight(bundle: Bundle, layer: str, mask_OI: Bools) -> Array:
    """Return a layer's dense weight as models hold it: codes, or numbers of half or full precision."""
    dtype = kernel_type(bundle, layer)
    if dtype == np.uint8:
        return (bundle.weight_codes(layer, mask_OI) + WEIGHT_ZERO).astype(np.uint8)
    return bundle.weight(layer, mask_OI).astype(dtype)


def kernel_type(bundle: Bundle, layer: str) -> Stored:
    """Return the type in which models hold the kernels of a layer.

    Codes are unsigned: ONNX Runtime adds products of signed weights in 16 bits on x86 processors without VNNI, which
    may overflow. Kernels of bfloat16 become float32, because runtimes differ in their support of bfloat16.
    """
    held: dict[str, Stored] = {"int8": np.uint8, "float16": np.float16}
    return held.get(bundle.arrays[f"kernels/{layer}"].dtype.name, np.float32)


def zero_of(dtype: npt.DTypeLike) -> int:
    """Return what stands for a weight of zero."""
    return WEIGHT_ZERO if dtype == np.uint8 else 0


def worth_packing(bundle: Bundle, is_single: bool) -> list[str]:
    """Return the layers whose rows and bits are smaller than their dense weights."""
    layers = bundle.manifest.convs
    return [layer for layer in layers if _packed_bytes(bundle, layer) < _dense_bytes(bundle, layer, is_single)]


def _packed_bytes(bundle: Bundle, layer: str) -> float:
    kept_OI = bundle.union(layer)
    height, width = bundle.manifest.convs[layer].kernel
    bits = len(bundle.domains) * (kept_OI.sum() + kept_OI.size)
    return float(kept_OI.sum() * height * width * _width(bundle, layer) + bits / 8)


def _dense_bytes(bundle: Bundle, layer: str, is_single: bool) -> float:
    masks = {bundle.mask(domain, layer).tobytes() for domain in bundle.domains}
    conv = bundle.manifest.convs[layer]
    copies = 1 if is_single else len(masks)
    return float(conv.num_kernels * conv.kernel[0] * conv.kernel[1] * _width(bundle, layer) * copies)


def _width(bundle: Bundle, layer: str) -> int:
    return np.dtype(kernel_type(bundle, layer)).itemsize


def unpack(onnx: OnnxGraph, title: str, bits: Sequence[Bools]) -> list[str]:
    """Add vectors of bits, eight to a byte, and the nodes that make vectors of 0 and 1 of them."""
    packed = onnx.tensor(title, np.packbits(np.concatenate(bits), bitorder="little").reshape(-1, 1))
    powers = onnx.tensor("powers_of_two", 2 ** np.arange(8, dtype=np.int32))
    shifted = onnx.node("Div", onnx.cast(packed, np.int32), powers)
    ones = onnx.node("Mod", shifted, onnx.number(2, np.int32))
    sizes = [len(part) for part in bits]
    rest = 8 * len(onnx.tensors[title]) - sum(sizes)
    parts = onnx.split(onnx.node("Reshape", ones, onnx.integers(-1)), [*sizes, *([rest] if rest else [])])
    return parts[: len(sizes)]


def write_kernels(onnx: OnnxGraph, rows: KernelRows, numbers: Mapping[str, Integers]) -> dict[str, str]:
    """Add the nodes that make dense weights of rows, and return their names by layer: float32, or codes."""
    weights: dict[str, str] = {}
    for key, table in rows.tables.items():
        height, width, dtype = key
        layers = [layer for layer in numbers if rows.keys[layer] == key]
        flat_P = np.concatenate([numbers[layer].reshape(-1) for layer in layers])
        is_used_P = flat_P > 0
        is_row_R = np.zeros(len(table), dtype=bool)
        is_row_R[[0, *flat_P[is_used_P]]] = True
        assert (np.diff(flat_P[is_used_P]) > 0).all()  # rows are in the order of the positions
        title = f"kernels.{height}x{width}.{dtype}"
        chosen, used = unpack(onnx, f"{title}.bits", [is_row_R, is_used_P])
        row_P = onnx.node("Gather", _row_numbers(onnx, chosen, is_row_R), _count(onnx, used), axis=0)
        dense = onnx.node("Gather", onnx.tensor(title, table), row_P, axis=0)
        dense = onnx.cast(dense, np.float32) if dtype == "float16" else dense
        parts = onnx.split(dense, [numbers[layer].size for layer in layers])
        for layer, part in zip(layers, parts, strict=True):
            weights[layer] = onnx.node("Reshape", part, onnx.integers(*numbers[layer].shape, height, width))
    return weights


def write_dense(onnx: OnnxGraph, weights: Mapping[str, Array]) -> dict[str, str]:
    """Add dense weights as they are stored, and return their names by layer: float32, or codes."""
    names = {layer: onnx.tensor(f"dense.{layer}", weight) for layer, weight in weights.items()}
    is_half = {layer: weight.dtype == np.float16 for layer, weight in weights.items()}
    return {layer: onnx.cast(name, np.float32) if is_half[layer] else name for layer, name in names.items()}


def write_masks(onnx: OnnxGraph, bundle: Bundle) -> dict[str, str]:
    """Add the masks of the layers that not every domain uses whole, and return their names: (D, O, I, 1, 1)."""
    masks = {
        layer: np.stack([bundle.mask(domain, layer) for domain in bundle.domains]) for layer in bundle.manifest.convs
    }
    differing = {layer: mask_DOI for layer, mask_DOI in masks.items() if not mask_DOI[:, bundle.union(layer)].all()}
    if not differing:
        return {}
    parts = unpack(onnx, "masks", [mask_DOI.reshape(-1) for mask_DOI in differing.values()])
    names: dict[str, str] = {}
    for part, (layer, mask_DOI) in zip(parts, differing.items(), strict=True):
        shaped = onnx.node("Reshape", part, onnx.integers(*mask_DOI.shape, 1, 1))
        names[layer] = onnx.cast(shaped, np.bool_)
    return names


def _count(onnx: OnnxGraph, bits: str) -> str:
    """Number the ones of a vector from 1 on; zeros become 0."""
    return onnx.node("Mul", onnx.node("CumSum", bits, onnx.number(0, np.int32)), bits)


def _row_numbers(onnx: OnnxGraph, chosen: str, is_row_R: Bools) -> str:
    """List the chosen rows: entry 0 is row 0, entry 1 the first row after it that was chosen, and so on.

    Compress would do it in one node, but ONNX Runtime does not compute nodes ahead whose result has an unknown size.
    Rows that were not chosen are added up in an entry of their own, which is dropped.
    """
    count = int(is_row_R.sum())
    zero, one, rows = (onnx.number(value, np.int32) for value in (0, 1, len(is_row_R)))
    zeros = onnx.node("Expand", zero, onnx.integers(count + 1))
    all_rows = onnx.node("Range", zero, rows, one)
    entries = onnx.node("ScatterElements", zeros, _count(onnx, chosen), all_rows, axis=0, reduction="add")
    return onnx.node("Slice", entries, onnx.integers(1), onnx.integers(count + 1))
