"""Domains drawn at random, to be added to model files, and what files answer on every engine.

Legend: O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from prunus.arrays import DType, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode, widened
from prunus.bundle.file import read_bundle, write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.editing.domains import DomainParts
from prunus.graph.network import GraphNetwork, Node
from prunus.images import Preprocess
from prunus.runtime import _native
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import drawn_mask, torch_logits

ENGINES = ("numpy", *_native.available_kernels())
DENSITIES = (0.1, 0.3, 0.5)  # the native engine computes the last one as a dense matrix where layers are small


def drawn_images(bundle: Bundle) -> Floats:
    """Draw prepared images of a model's size."""
    size = bundle.manifest.image_size
    return np.random.default_rng(1).standard_normal((3, 3, size, size)).astype(np.float32)


def drawn_parts(
    bundle: Bundle, rng: np.random.Generator, grows: bool, densities: Sequence[float] = (0.5,), lanes: int = 1
) -> DomainParts:
    """Draw a domain: masks inside the stored kernels, or also outside of them, and its own numbers."""
    manifest = bundle.manifest
    masks, weights = {}, {}
    for layer, conv in manifest.convs.items():
        mask_OI = drawn_mask(conv, float(rng.choice(densities)), rng, lanes)
        masks[layer] = mask_OI if grows else mask_OI & bundle.union(layer)
        weights[layer] = rng.standard_normal((*mask_OI.shape, *conv.kernel)).astype(np.float32)
    tensors = {}
    for number, operation in enumerate(manifest.graph):
        for role, shape in operation.tensors(manifest.shapes[operation.inputs[0]][0]).items():
            if rng.random() < 0.6:
                tensors[number, role] = rng.standard_normal(shape).astype(np.float32)
    classes = tuple(f"class {index}" for index in range(int(rng.integers(2, 6))))
    head = (
        rng.standard_normal((len(classes), manifest.num_features)).astype(np.float32),
        rng.standard_normal(len(classes)).astype(np.float32),
    )
    size = manifest.image_size
    preprocess = Preprocess(size=size, resize=size, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))
    return DomainParts(DomainEntry(classes=classes, preprocess=preprocess), masks, weights, tensors, head)


def all_logits(bundle: Bundle, folder: Path, dtype: DType) -> dict[tuple[str, str], Floats]:
    """Write a file, read it again, and classify images of all its domains with all engines."""
    path = folder / "m.prunus"
    write_bundle(path, bundle, dtype)
    content, images = read_bundle(path), drawn_images(bundle)
    engines = {
        name: NumpyEngine(content) if name == "numpy" else NativeEngine(content, kernels=name) for name in ENGINES
    }
    return {
        (name, domain): engine.logits(images, domain) for name, engine in engines.items() for domain in content.domains
    }


def expected_logits(bundle: Bundle, parts: DomainParts) -> Floats:
    """Compute a domain from its parts with torch, in double precision, without a file."""
    weights = {}
    for layer in bundle.manifest.convs:
        union_OI = bundle.union(layer)
        stored = bundle.weight(layer, union_OI)
        own = widened(encode(parts.weights[layer], bundle.dtype))
        weights[layer] = np.where(union_OI[..., None, None], stored, own)
    nodes = [
        Node(operation, {role: t[None].astype(np.float64) for (at, role), t in parts.tensors.items() if at == number})
        for number, operation in enumerate(bundle.manifest.graph)
    ]
    head = tuple(widened(encode(array, bundle.dtype)) for array in parts.head)
    masks = {layer: mask_OI[None] for layer, mask_OI in parts.masks.items()}
    network = GraphNetwork(tuple(nodes), bundle.manifest.image_size, weights, masks, ((head[0], head[1]),))
    return torch_logits(network, drawn_images(bundle)).astype(np.float32)
