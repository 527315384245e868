"""Ways to damage a model file."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from fuzzing.claims import huge_layers, many_arrays
from fuzzing.eight_bits import sealed_integers
from fuzzing.models import CLASSES
from fuzzing.sealing import join, sealed, split
from prunus.graph.operations import OPERATIONS, ActivationName

VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 127, 255, 1000, 4096, 5000, 65535, 65536, 65537),
    *(2**20, 2**31 - 1, 2**31, 2**53, 2**63, 10**18, 10**30, 0.5, 1e-9, 1e308, -0.0),
    *("", "x", "bits", "runs", "conv", "pool", "mean", "max", "relu", "gelu", "float16", "bfloat16", "int8", "0.scale"),
    *("../../etc/passwd", None, True, False, [], {}, [1], {"a": 1}, [[[]]], [0, 0], [1, 1], [3, 3, 3, 3]),
)


def flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for offset in rng.integers(0, len(content), rng.integers(1, 9)):
        changed[offset] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    start, length = int(rng.integers(len(content))), int(rng.integers(1, 200))
    noise = rng.integers(0, 256, length, dtype=np.uint8).tobytes()
    return (content[:start] + noise + content[start + length :])[: len(content)]


def insert(content: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content)))
    return content[:start] + rng.integers(0, 256, rng.integers(1, 100), dtype=np.uint8).tobytes() + content[start:]


def remove(content: bytes, rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content)))
    return content[:start] + content[start + int(rng.integers(1, 100)) :]


def move(content: bytes, rng: np.random.Generator) -> bytes:
    first, second = sorted(int(offset) for offset in rng.integers(0, len(content), 2))
    return content[second:] + content[first:second] + content[:first]


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content)))]


def header_length(content: bytes, rng: np.random.Generator) -> bytes:
    lengths = (0, 1, 2**20, 2**31, 2**40, 2**63, 2**64 - 1)
    return struct.pack("<Q", lengths[int(rng.integers(len(lengths)))]) + content[8:]


def offsets(content: bytes, rng: np.random.Generator) -> bytes:
    header, data = split(content)
    name = str(rng.choice([key for key in header if key != "__metadata__"]))
    key = str(rng.choice(["data_offsets", "shape", "dtype"]))
    header[name][key] = {
        "data_offsets": [int(value) for value in rng.choice([0, 1, 7, 100, len(data), 2**40, 2**62], 2)],
        "shape": [int(value) for value in rng.choice([0, 1, 3, 2**20, 2**40, 2**62], rng.integers(0, 4))],
        "dtype": str(rng.choice(["F64", "F32", "F16", "U8", "I64", "BOOL", "BF16", "X"])),
    }[key]
    return join(header, data)


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(inner for key, child in pairs for inner in _paths(child, (*path, key)))]


def _edit(own: Any, rng: np.random.Generator) -> None:  # noqa: ANN401  # any JSON
    """Replace, remove or change one value anywhere inside."""
    paths = _paths(own)[1:]
    if not paths:
        return
    *path, last = paths[int(rng.integers(len(paths)))]
    target = own
    for key in path:
        target = target[key]
    old = target[last]
    if rng.random() < 0.15:
        del target[last]
    elif rng.random() < 0.4 and isinstance(old, (int, float)):
        target[last] = [old + 1, old - 1, old * 2, old // 2, -old][int(rng.integers(5))]
    else:
        target[last] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])


def header_value(content: bytes, rng: np.random.Generator) -> bytes:
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    _edit(own, rng)
    header["__metadata__"]["prunus"] = json.dumps(own)
    return join(header, data)


def sealed_values(content: bytes, rng: np.random.Generator) -> bytes:
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    if rng.random() < 0.2:  # another image size, in all places: it is the one value that must not change alone
        size = int(rng.integers(1, 200)) if rng.random() < 0.8 else int(rng.integers(1, 5000))
        own["manifest"]["image_size"] = size
        for domain in own["manifest"]["domains"].values():
            domain["preprocess"] |= {"size": size, "resize": size}
    for _ in range(int(rng.integers(0, 4))):
        _edit(own, rng)
    return sealed(own, header, data, refit=rng.random() < 0.5)


def sealed_graph(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, add, remove or reconnect operations, and refit the parts where possible."""
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    graph = own["manifest"]["graph"]
    for _ in range(int(rng.integers(1, 4))):
        if not graph:
            break
        index = int(rng.integers(len(graph)))
        CHANGES[int(rng.integers(len(CHANGES)))](graph, index, rng)
    return sealed(own, header, data, refit=True)


def _reconnect(graph: list[Any], index: int, rng: np.random.Generator) -> None:
    graph[index]["inputs"] = [int(value) for value in rng.integers(0, index + 2, rng.integers(0, 4))]


def _set(graph: list[Any], index: int, rng: np.random.Generator) -> None:
    """Change one setting of an operation to another valid value."""
    names = get_args(ActivationName)
    chosen: dict[str, Any] = {
        "activation": str(rng.choice(names)),
        "slope": float(rng.normal()),
        "kernel": [int(value) for value in rng.integers(1, 6, 2)],
        "stride": [int(value) for value in rng.integers(1, 5, 2)],
        "dilation": [int(value) for value in rng.integers(1, 4, 2)],
        "pads": [int(value) for value in rng.integers(0, 6, 4)],
        "groups": int(rng.integers(1, 9)),
        "channels": [int(value) for value in rng.integers(1, 20, 2)],
        "ceil": bool(rng.integers(2)),
        "count_pads": bool(rng.integers(2)),
        "kind": str(rng.choice(["max", "mean"])),
        "count": int(rng.integers(0, 9)),
        "eps": float(abs(rng.normal())),
        **_token_settings(rng),
    }
    known = [key for key in chosen if key in _fields(str(graph[index].get("op")))]
    if known:
        key = known[int(rng.integers(len(known)))]
        graph[index][key] = chosen[key]


def _token_settings(rng: np.random.Generator) -> dict[str, Any]:
    """Return settings of the operations on tokens. Sizes and pixels often suit the small networks."""
    some = [int(value) for value in rng.choice([1, 2, 4, 8, 16, 17], 3)]
    return {
        "heads": int(rng.integers(1, 6)),
        "dims": [int(value) for value in rng.integers(1, 9, 2)],
        "first": [int(value) for value in rng.integers(0, 20, 3)],
        "step": [int(value) for value in rng.integers(0, 9, 3)],
        "scale": float(rng.normal() * 10 ** rng.uniform(-3, 6)),
        "pairs": [None, some[:2], [16, 16], [4, 4]][int(rng.integers(4))],
        "window": [None, some[:2], [2, 2], [4, 1]][int(rng.integers(4))],
        "every": [int(value) for value in rng.integers(1, 4, 2)],
        "shift": [int(value) for value in rng.integers(0, 5, 2)],
        "apart": float(rng.choice([0.0, -100.0, 1e30, -np.inf, rng.normal()])),
        "sides": some[:2],
        "target": some,
        "sizes": some[: int(rng.integers(1, 4))],
        "strides": [int(value) for value in rng.integers(0, 40, rng.integers(1, 4))],
        "offset": int(rng.integers(0, 40)),
    }


def _fields(op: str) -> set[str]:
    return set(OPERATIONS[op].model_fields) if op in OPERATIONS else set()


def _repeat(graph: list[Any], index: int, rng: np.random.Generator) -> None:
    graph.append(copy.deepcopy(graph[index]) | {"inputs": [len(graph)] * int(rng.integers(1, 3))})


CHANGES: tuple[Callable[[list[Any], int, np.random.Generator], None], ...] = (
    _reconnect,
    _set,
    _set,
    _set,
    _repeat,
    lambda graph, index, rng: _edit(graph[index], rng),
    lambda graph, index, rng: graph.pop(index),
)


def sealed_parts(content: bytes, rng: np.random.Generator) -> bytes:
    """Claim other sizes, and extend or cut the parts to match."""
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    for _ in range(int(rng.integers(1, 4))):
        entry = own["index"][int(rng.integers(len(own["index"])))]
        what = int(rng.integers(5))
        if what < 2:
            entry[what + 1] = max(0, entry[what + 1] + int(rng.integers(-9, 10)))
        elif what == 2:
            entry[0] = str(rng.choice(["bits", "runs"]))
        elif what == 3:
            names = own[str(rng.choice(["norms", "shared"]))]
            names.append(f"{int(rng.integers(0, 20))}.{rng.choice(['scale', 'bias', 'ones'])}")
        else:
            domain = own["manifest"]["domains"][str(rng.choice(list(CLASSES)))]
            domain["classes"] = [str(number) for number in range(int(rng.integers(0, 9)))]
    return sealed(own, header, data, refit=True)


def sealed_numbers(content: bytes, rng: np.random.Generator) -> bytes:
    """Overwrite some of the data with random bytes."""
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    changed = np.frombuffer(data, np.uint8).copy()
    for _ in range(int(rng.integers(1, 6))):
        start, length = int(rng.integers(len(changed))), int(rng.integers(1, 40))
        noise = rng.integers(0, 256, length, dtype=np.uint8) if rng.random() < 0.5 else np.full(length, 255, np.uint8)
        changed[start : start + length] = noise[: len(changed) - start]
    return sealed(own, header, changed.tobytes(), refit=False)


SEALED: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "header values, right checksum": sealed_values,
    "graph, right checksum": sealed_graph,
    "parts of another size, right checksum": sealed_parts,
    "any numbers, right checksum": sealed_numbers,
    "integers and codings, right checksum": sealed_integers,
    "many layers and domains, right checksum": many_arrays,
    "huge layers of nothing, right checksum": huge_layers,
}
DAMAGE: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "flipped bits": flip_bits,
    "overwritten": overwrite,
    "inserted": insert,
    "removed": remove,
    "moved": move,
    "cut": cut,
    "header length": header_length,
    "offsets, shapes, types": offsets,
    "header value": header_value,
    **SEALED,
}
