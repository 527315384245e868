"""8-bit model files in memory, with random codes, codings and integer operations."""

from __future__ import annotations

import numpy as np

from prunus.arrays import Array, Floats, Values
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import shared_codings
from prunus.bundle.eight_bits.splitting import possible_integers, split_activations
from prunus.bundle.manifest import Manifest
from prunus.graph.compute import compute
from prunus.graph.operations import Conv, Graph
from prunus.runtime.numpy_engine import _dense_tensors
from tests.makers.graph_bundles import random_bundle, varied_graph

EXTREME = 0.04  # share of zeros and weights that are at an end of their range


def random_coded_bundle(
    graph: Graph, image_size: int, share: float = 1.0, seed: int = 0, density: float = 0.5
) -> Bundle:
    """Return an 8-bit bundle for two domains, in which a share of the possible operations compute with integers.

    Codings suit the numbers that the operations make, but some scales are too small, so that codes saturate.
    With a share of 1 no convolution has kernels over ones, which would need floats.
    """
    rng = np.random.default_rng((seed, 8))
    floats = random_bundle(graph, image_size, density=density, seed=seed)
    if share == 1:
        floats = without_ones(floats)
    chosen = [number for number in possible_integers(floats) if rng.random() < share]
    split = split_activations(floats, chosen).bundle
    used = {operation.layer for number, operation in _convs(split.manifest) if number in split.manifest.integers}
    wide = tuple(layer for layer in split.manifest.convs if layer not in used and rng.random() < 0.5)
    manifest = split.manifest.with_graph(split.manifest.graph, split.manifest.integers, wide)
    arrays = {name: array for name, array in split.arrays.items() if not name.startswith(("kernels/", "head/"))}
    arrays |= _weights(split, wide, rng) | _heads(split, rng) | _codings(split, rng)
    return Bundle(manifest, arrays)


def without_ones(bundle: Bundle) -> Bundle:
    """Return a bundle without kernels over ones."""
    return Bundle(bundle.manifest, {name: array for name, array in bundle.arrays.items() if not name.endswith(".ones")})


def _convs(manifest: Manifest) -> list[tuple[int, Conv]]:
    return [(number, operation) for number, operation in enumerate(manifest.graph) if isinstance(operation, Conv)]


def _weights(bundle: Bundle, wide: tuple[str, ...], rng: np.random.Generator) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for layer, conv in bundle.manifest.convs.items():
        kernels = bundle.kernels(layer)
        if layer in wide:
            arrays[f"kernels/{layer}"] = kernels.astype(np.float16)
            continue
        largest = float(np.abs(kernels).max(initial=1e-3))
        scale = (largest / 127 * rng.uniform(0.5, 2, conv.out_channels)).astype(np.float32)
        arrays[f"kernels/{layer}"] = _codes(kernels / scale[bundle.kept_outputs(layer), None, None], rng)
        arrays[f"scale/{layer}"] = scale
    return arrays


def _codes(numbers: Floats, rng: np.random.Generator) -> Array:
    codes = np.clip(np.rint(numbers), -127, 127)
    extreme = rng.random(codes.shape) < EXTREME
    return np.where(extreme, rng.choice([-127, 127], codes.shape), codes).astype(np.int8)


def _heads(bundle: Bundle, rng: np.random.Generator) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for domain in bundle.domains:
        weight, bias = bundle.head(domain)
        scale = (np.abs(weight).max(axis=1) / 127).astype(np.float32)
        arrays |= {f"head/{domain}/weight": _codes(weight / scale[:, None], rng), f"head/{domain}/bias": bias}
        arrays[f"head/{domain}/scale"] = scale
    return arrays


def _codings(bundle: Bundle, rng: np.random.Generator) -> dict[str, Array]:
    manifest = bundle.manifest
    arrays: dict[str, Array] = {}
    for domain in bundle.domains:
        ranges = _ranges(bundle, domain, rng)
        scales, zeros = {}, {}
        for value in manifest.coded:
            low, high = ranges[value]
            scales[value] = (high - low) / 255 * rng.uniform(0.7, 1.1)
            natural = int(np.clip(np.rint(-low / scales[value]), 0, 255))
            zeros[value] = int(rng.choice([0, 255])) if rng.random() < EXTREME else natural
        for source, result in shared_codings(manifest.graph, manifest.integers):
            scales[result], zeros[result] = scales[source], zeros[source]
        arrays[f"coding/{domain}/scale"] = np.array([scales[value] for value in manifest.coded], np.float32)
        arrays[f"coding/{domain}/zero"] = np.array([zeros[value] for value in manifest.coded], np.uint8)
    return arrays


def _ranges(bundle: Bundle, domain: str, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return the smallest and the largest number of every value for random images, or zero."""
    manifest, tensors = bundle.manifest, _dense_tensors(_without_integers(bundle), domain)
    size = manifest.image_size
    values: list[Values] = [rng.standard_normal((4, 3, size, size))]
    for number, operation in enumerate(manifest.graph):
        inputs = [values[value] for value in operation.inputs]
        with np.errstate(all="ignore"):
            values.append(compute(operation, inputs, tensors[number], manifest.shapes[number + 1][1:]))
    limited = [np.clip(np.nan_to_num(value), -1e9, 1e9) for value in values]
    return [(min(float(value.min()), 0.0), max(float(value.max()), 1e-3)) for value in limited]


def _without_integers(bundle: Bundle) -> Bundle:
    return Bundle(bundle.manifest.with_graph(bundle.manifest.graph, ()), bundle.arrays)


def integer_graph(seed: int) -> Graph:
    """Return a graph with every operation that can compute with integers, for images of 12 pixels a side."""
    return tuple(operation for operation in varied_graph(seed) if operation.op != "layer_norm")
