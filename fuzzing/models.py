"""Small models that together have every operation."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import TypeAdapter

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.bits import pack_bits
from prunus.bundle.manifest import DomainEntry, Manifest
from prunus.graph.operations import Graph
from prunus.images import Preprocess

CLASSES = {"birds": ("owl", "wren"), "flowers": ("rose", "tulip", "lily")}
SIZE = 16
CONV = {"op": "conv", "kernel": [3, 3], "pads": [1, 1, 1, 1]}
POINT = {"op": "conv", "kernel": [1, 1]}
PATCHES = {"op": "conv", "inputs": [0], "layer": "patch", "kernel": [4, 4], "stride": [4, 4], "channels": [8, 3]}
ATTENTION = {"op": "attention", "heads": 2, "dims": [4, 4], "first": [0, 8, 16], "step": [4, 4, 4], "scale": 0.5}
WINDOWS = ATTENTION | {"window": [2, 2], "shift": [1, 1], "apart": -100.0, "pairs": [4, 4]}


def image_model() -> Bundle:
    """Return a small network with every operation on images and random weights."""
    operations: list[dict[str, Any]] = [
        CONV | {"inputs": [0], "layer": "stem", "channels": [8, 3], "was": [16, 3], "stride": [2, 2], "slope": 0.1},
        CONV | {"inputs": [1], "layer": "deep", "channels": [8, 1], "groups": 8, "activation": "hard_swish"},
        {"op": "mean", "inputs": [2]},
        POINT | {"inputs": [3], "layer": "squeeze", "channels": [4, 8], "activation": "relu"},
        POINT | {"inputs": [4], "layer": "excite", "channels": [8, 4], "activation": "sigmoid"},
        {"op": "mul", "inputs": [2, 5]},
        POINT | {"inputs": [6, 1], "layer": "out", "channels": [8, 8], "activation": "relu6"},
        {"op": "pool", "inputs": [7], "kind": "max", "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1, 1, 1]},
        {"op": "pool", "inputs": [8], "kind": "mean", "kernel": [2, 2], "stride": [1, 1], "ceil": True},
        {"op": "affine", "inputs": [8], "activation": "leaky_relu", "slope": 0.1},
        {"op": "append_zeros", "inputs": [10], "count": 3},
        {"op": "cat", "inputs": [10, 11]},
        CONV | {"inputs": [12], "layer": "wide", "channels": [6, 19], "dilation": [2, 2], "pads": [2, 2, 2, 2]},
        CONV | {"inputs": [13, 13], "layer": "twice", "channels": [6, 2], "groups": 3, "activation": "gelu"},
        {"op": "add", "inputs": [13, 14], "activation": "silu"},
        CONV | {"inputs": [15], "layer": "twice", "channels": [6, 2], "groups": 3},
        {"op": "layer_norm", "inputs": [16], "eps": 1e-6},
        {"op": "pool", "inputs": [17], "kind": "mean", "kernel": [2, 2], "stride": [2, 2]},
    ]
    return _model_of(operations)


def token_model() -> Bundle:
    """Return a small network with every operation on tokens and random weights."""
    operations: list[dict[str, Any]] = [
        PATCHES,
        {"op": "rearrange", "inputs": [1], "target": [8, 1, 16], "sizes": [8, 16], "strides": [16, 1]},
        {"op": "join_pixels", "inputs": [2], "count": 1},
        {"op": "affine_map", "inputs": [3], "sides": [1, 17]},
        {"op": "layer_norm", "inputs": [4], "eps": 1e-6},
        POINT | {"inputs": [5], "layer": "qkv", "channels": [24, 8]},
        ATTENTION | {"inputs": [6, 6, 6], "pairs": [17, 17]},
        POINT | {"inputs": [7, 4], "layer": "mixed", "channels": [8, 8]},
        POINT | {"inputs": [8], "layer": "wider", "channels": [16, 8], "activation": "gelu"},
        {"op": "rearrange", "inputs": [9], "target": [16, 4, 4], "sizes": [16, 16], "strides": [17, 1], "offset": 1},
        POINT | {"inputs": [10], "layer": "seen", "channels": [24, 16]},
        WINDOWS | {"inputs": [11, 11, 11]},
    ]
    return _model_of(operations)


def attention_model() -> Bundle:
    """Return a small network of convolutions and attention, all of which can compute with integers."""
    operations: list[dict[str, Any]] = [
        PATCHES,
        POINT | {"inputs": [1], "layer": "qkv", "channels": [24, 8]},
        WINDOWS | {"inputs": [2, 2, 2]},
        POINT | {"inputs": [3, 1], "layer": "mixed", "channels": [8, 8]},
        POINT | {"inputs": [4], "layer": "again", "channels": [24, 8]},
        {"op": "mean", "inputs": [5]},
        ATTENTION | {"inputs": [6, 5, 5], "scale": 5.0},
        ATTENTION | {"inputs": [5, 5, 5], "pairs": [16, 16]},
        {"op": "mean", "inputs": [8]},
        {"op": "add", "inputs": [7, 9], "activation": "relu"},
    ]
    return _model_of(operations)


def _model_of(operations: list[dict[str, Any]]) -> Bundle:
    preprocess = Preprocess(size=SIZE, resize=SIZE + 2, mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))
    manifest = Manifest(
        backbone="small",
        image_size=SIZE,
        graph=TypeAdapter[Graph](Graph).validate_python(operations),
        domains={name: DomainEntry(classes=names, preprocess=preprocess) for name, names in CLASSES.items()},
        dense_bytes=10_000,
        provenance={"recipe": {}, "step": 1, "total_steps": 1},
    )
    return Bundle(manifest, _numbers(manifest))


def _numbers(manifest: Manifest) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    arrays: dict[str, Array] = {}
    for layer, conv in manifest.convs.items():
        kept = rng.random(conv.num_kernels) < 0.7
        arrays[f"union/{layer}"] = pack_bits(kept)
        arrays[f"kernels/{layer}"] = rng.standard_normal((int(kept.sum()), *conv.kernel)).astype(np.float32)
        for domain in manifest.domains:
            arrays[f"mask/{domain}/{layer}"] = pack_bits(rng.random(int(kept.sum())) < 0.6)
    for number, operation in enumerate(manifest.graph):
        for role, shape in operation.tensors(manifest.shapes[operation.inputs[0]][0]).items():
            if role == "bias":
                arrays[f"shared/{number}.{role}"] = rng.standard_normal(shape).astype(np.float32)
            else:
                for domain in manifest.domains:
                    arrays[f"norm/{domain}/{number}.{role}"] = rng.standard_normal(shape).astype(np.float32)
    for domain, entry in manifest.domains.items():
        shape = (len(entry.classes), manifest.num_features)
        arrays[f"head/{domain}/weight"] = rng.standard_normal(shape).astype(np.float32)
        arrays[f"head/{domain}/bias"] = np.zeros(len(entry.classes), np.float32)
    return arrays
