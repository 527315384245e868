"""An 8-bit version of the small model, and files with hostile integer operations, codes and codings."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fuzzing.sealing import sealed, split
from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers, split_activations
from prunus.quantizing.weights import code_weights

SCALE, ZERO = 0.05, 100
ODD_SCALES = (0.0, -1.0, 1e-45, 2.0**-40, 1e-12, 1.0, 1e12, 2.0**40, 3e38, np.inf, np.nan)


def without_floats(bundle: Bundle) -> Bundle:
    """Return a bundle without what cannot compute with integers: kernels over ones, and layer norms."""
    kept = [(number, op) for number, op in enumerate(bundle.manifest.graph) if op.op != "layer_norm"]
    values = {0: 0}
    for number, operation in enumerate(bundle.manifest.graph):
        is_norm = operation.op == "layer_norm"
        values[number + 1] = values[operation.inputs[0]] if is_norm else max(values.values()) + 1
    graph = tuple(op.model_copy(update={"inputs": tuple(values[v] for v in op.inputs)}) for _, op in kept)
    now = {number: new for new, (number, _) in enumerate(kept)}
    arrays: dict[str, Array] = {}
    for name, array in bundle.arrays.items():
        prefix, _, key = name.rpartition("/")
        old, _, role = key.partition(".")
        if not name.startswith(("norm/", "shared/")):
            arrays[name] = array
        elif role != "ones" and int(old) in now:
            arrays[f"{prefix}/{now[int(old)]}.{role}"] = array
    return Bundle(bundle.manifest.with_graph(graph, ()), arrays)


def with_joint_masks(bundle: Bundle) -> Bundle:
    """Return a bundle whose domains use the same kernels but the first of a layer: their masks are coded together."""
    arrays = dict(bundle.arrays)
    first, *others = bundle.domains
    for layer in bundle.manifest.convs:
        mask = np.packbits(np.ones(len(bundle.arrays[f"kernels/{layer}"]), np.bool_), bitorder="little")
        arrays[f"mask/{first}/{layer}"] = mask
        for domain in others:
            arrays[f"mask/{domain}/{layer}"] = np.concatenate([mask[:1] & 0xFE, mask[1:]])
    return Bundle(bundle.manifest, arrays)


def coded_model(floats: Bundle) -> Bundle:
    """Return a bundle of floats in 8 bits, with one coding for all values, and a wide layer if it keeps any float."""
    has_floats = len(possible_integers(floats)) < len(floats.manifest.graph)
    integers = [number for number in possible_integers(floats) if number % 7 != 3 or not has_floats]
    coded = split_activations(floats, integers).bundle
    arrays = {name: array for name, array in coded.arrays.items() if not name.startswith(("kernels/", "head/"))}
    used = {getattr(coded.manifest.graph[number], "layer", "") for number in coded.manifest.integers}
    wide = tuple(layer for layer in coded.manifest.convs if layer not in used)[:1]
    for layer, conv in coded.manifest.convs.items():
        if layer in wide:
            arrays[f"kernels/{layer}"] = coded.kernels(layer).astype(np.float16)
        else:
            pair = code_weights(coded.kernels(layer), coded.kept_outputs(layer), conv.out_channels, "largest")
            arrays |= dict(zip((f"kernels/{layer}", f"scale/{layer}"), pair, strict=True))
    manifest = coded.manifest.with_graph(coded.manifest.graph, coded.manifest.integers, wide)
    for domain in coded.domains:
        arrays |= _own(coded, domain, len(manifest.coded))
    return Bundle(manifest, arrays)


def _own(bundle: Bundle, domain: str, values: int) -> dict[str, Array]:
    weight, bias = bundle.head(domain)
    codes, scale = code_weights(weight, np.arange(len(weight)), len(weight), "largest")
    head: dict[str, Array] = {"weight": codes, "scale": scale, "bias": bias}
    codings: dict[str, Array] = {"scale": np.full(values, SCALE, np.float32), "zero": np.full(values, ZERO, np.uint8)}
    return {f"head/{domain}/{role}": array for role, array in head.items()} | {
        f"coding/{domain}/{role}": array for role, array in codings.items()
    }


def sealed_integers(content: bytes, rng: np.random.Generator) -> bytes:
    """Change which operations compute with integers, which layers are wide, and the numbers of their codings."""
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    if rng.random() < 0.6:
        _change_lists(own, rng)
    changed = bytearray(data)
    for name in ("scales", "classifiers", "codings", "zeros", "kernels"):
        if name in header and rng.random() < 0.4:
            _change_numbers(changed, header[name], name, rng)
    return sealed(own, header, bytes(changed), refit=True)


def _change_lists(own: Any, rng: np.random.Generator) -> None:  # noqa: ANN401  # any JSON
    manifest = own["manifest"]
    count = len(manifest["graph"])
    chosen = [int(number) for number in np.flatnonzero(rng.random(count + 2) < rng.random())]
    if rng.random() < 0.8:
        chosen = [number for number in chosen if number in manifest.get("integers", range(count))]
    manifest["integers"] = chosen
    layers = [operation.get("layer") for operation in manifest["graph"] if operation["op"] == "conv"]
    if rng.random() < 0.5:
        manifest["wide"] = [layer for layer in dict.fromkeys(layers) if rng.random() < 0.3]
    if rng.random() < 0.2:
        own.update(dtype="int8", format_version=4)


def _change_numbers(data: bytearray, entry: Any, name: str, rng: np.random.Generator) -> None:  # noqa: ANN401
    begin, end = entry["data_offsets"]
    width = 1 if name in ("zeros", "kernels") else 4
    if end - begin < width:
        return
    for _ in range(int(rng.integers(1, 5))):
        start = begin + width * int(rng.integers((end - begin) // width))
        if width == 1:
            data[start] = int(rng.choice([0, 1, 127, 128, 129, 255]))
        else:
            data[start : start + 4] = np.float32(rng.choice(ODD_SCALES)).tobytes()
