"""Model files in memory, from a graph written by hand and random numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import torch
from pydantic import TypeAdapter

from prunus.arrays import Array, Bools, Doubles, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.kernel_order import to_stored
from prunus.bundle.manifest import ConvEntry, DomainEntry, Manifest
from prunus.bundle.packing import from_bundle
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import ActivationName, Graph
from prunus.images import Preprocess
from prunus.torch_graph.network import TorchNetwork

CLASSES = ("x", "y", "z")


def random_bundle(
    graph: Graph,
    image_size: int,
    domains: Sequence[str] = ("a", "b"),
    density: float | Mapping[str, float] = 0.5,
    seed: int = 0,
    lanes: int = 1,
) -> Bundle:
    """Return a bundle with random kernels, random masks of a density, and some of the operations' tensors.

    A tensor differs between domains, is shared, or is missing, at random. `density` may name one per layer. With
    `lanes`, so many consecutive inputs of 1x1 layers share a switch.
    """
    rng = np.random.default_rng(seed)
    preprocess = Preprocess(size=image_size, resize=image_size, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    entry = DomainEntry(classes=CLASSES, preprocess=preprocess)
    manifest = Manifest(
        backbone="made/by_hand",
        image_size=image_size,
        graph=graph,
        domains=dict.fromkeys(domains, entry),
        dense_bytes=2**20,
        provenance={},
    )
    arrays: dict[str, Array] = {}
    for layer, conv in manifest.convs.items():
        share = density[layer] if isinstance(density, Mapping) else density
        arrays |= _layer(layer, conv, [drawn_mask(conv, share, rng, lanes) for _ in domains], domains, rng)
    arrays |= _tensors(manifest, rng)
    for domain in domains:
        arrays[f"head/{domain}/weight"] = _normal(rng, (len(CLASSES), manifest.num_features))
        arrays[f"head/{domain}/bias"] = _normal(rng, (len(CLASSES),))
    return Bundle(manifest, arrays)


def drawn_mask(conv: ConvEntry, density: float, rng: np.random.Generator, lanes: int = 1) -> Bools:
    """Draw which kernels of a layer are on: (O, I)."""
    in_blocks = conv.kernel == (1, 1) and conv.groups == 1 and conv.in_channels % lanes == 0
    width = lanes if in_blocks else 1
    mask_OB = rng.random((conv.out_channels, conv.in_channels // width)) < density
    return mask_OB.repeat(width, axis=1)


def _layer(
    layer: str, conv: ConvEntry, masks: Sequence[Bools], domains: Sequence[str], rng: np.random.Generator
) -> dict[str, Array]:
    stored = [to_stored(mask, conv) for mask in masks]
    kept = np.logical_or.reduce(stored)
    fan_in = conv.in_channels * conv.kernel[0] * conv.kernel[1]
    arrays: dict[str, Array] = {
        f"union/{layer}": pack_bits(kept),
        f"kernels/{layer}": _normal(rng, (int(kept.sum()), *conv.kernel)) / np.float32(np.sqrt(fan_in)),
    }
    return arrays | {
        f"mask/{domain}/{layer}": pack_bits(mask[kept]) for domain, mask in zip(domains, stored, strict=True)
    }


def _tensors(manifest: Manifest, rng: np.random.Generator) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for number, operation in enumerate(manifest.graph):
        for role, shape in operation.tensors(manifest.shapes[operation.inputs[0]][0]).items():
            prefixes = ([f"norm/{domain}/" for domain in manifest.domains], ["shared/"], [])[int(rng.integers(3))]
            arrays |= {f"{prefix}{number}.{role}": _normal(rng, shape) for prefix in prefixes}
    return arrays


def exact_logits(bundle: Bundle, images: Floats, domain: str) -> Doubles:
    """Compute a bundle's graph with torch in double precision: shares no code with the engines that it checks."""
    return torch_logits(from_bundle(bundle, [domain]), images)


def torch_logits(network: GraphNetwork, images: Floats, domain: int = 0) -> Doubles:
    """Compute the logits of one domain of a network with torch in double precision."""
    names = [str(number) for number in range(len(network.heads))]
    module = TorchNetwork(network, names).double()
    with torch.no_grad():
        logits: Doubles = module(torch.from_numpy(images).double(), names[domain]).numpy()
    return logits


def _normal(rng: np.random.Generator, shape: Sequence[int]) -> Floats:
    return rng.standard_normal(shape).astype(np.float32)


def make_graph(*operations: dict[str, Any]) -> Graph:
    """Check operations as if they were read from a file."""
    return TypeAdapter[Graph](Graph).validate_python(operations)


def convolution(layer: str, inputs: Sequence[int], channels: tuple[int, int], **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Write a 3x3 convolution that keeps the sides of an image."""
    usual = {"kernel": (3, 3), "pads": (1, 1, 1, 1), "op": "conv", "layer": layer}
    return usual | {"inputs": tuple(inputs), "channels": channels} | fields


def varied_graph(seed: int) -> Graph:
    """Return a graph with every operation on images and random activations, for images of 12 pixels a side."""
    rng = np.random.default_rng(seed)
    act = [{"activation": str(name), "slope": 0.2} for name in rng.choice(get_args(ActivationName), 9)]
    one = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}
    windows = {"op": "pool", "kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1)}
    return make_graph(
        convolution("stem", [0], (16, 3), **act[0]),
        convolution("depthwise", [1], (16, 1), groups=16, stride=(2, 2), **act[1]),
        windows | {"inputs": (1,), "kind": "max"},
        convolution("residual", [2, 3], (16, 16), **act[2]),
        windows | {"inputs": (4,), "kind": "mean", "ceil": True, "count_pads": bool(rng.integers(2))},
        {"op": "mean", "inputs": (5,)},
        convolution("squeeze", [6], (16, 16), **one, activation="hard_sigmoid"),
        {"op": "mul", "inputs": (5, 7)} | act[3],
        convolution("grouped", [8], (16, 4), groups=4, dilation=(2, 2), pads=(2, 2, 2, 2), **act[4]),
        {"op": "add", "inputs": (8, 9)} | act[5],
        {"op": "append_zeros", "inputs": (10,), "count": 4},
        convolution("pointwise", [11], (20, 20), **one, **act[6]),
        {"op": "cat", "inputs": (12, 8)},
        {"op": "affine", "inputs": (13,)} | act[7],
        convolution("valid", [14], (12, 36), kernel=(2, 3), pads=(0, 1, 0, 0), **act[8]),
        convolution("narrow", [15], (12, 12), **one),
        convolution("narrow", [16], (12, 12), **one),
        *([{"op": "layer_norm", "inputs": (17,), "eps": 1e-6}] if rng.integers(2) else []),
    )
