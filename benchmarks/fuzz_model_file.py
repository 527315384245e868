"""Damage model files in many ways and see that none of them crashes, hangs, eats memory or answers wrongly.

    python benchmarks/fuzz_model_file.py [--count 10000] [--seed 0] [--json FILE]

Random damage: flipped bits, overwritten, inserted, removed and moved stretches, cut ends. Structured damage: values of
the header replaced by others (huge, negative, of another type, missing), parts of another length or type, offsets that
overlap or lie outside, a header length that asks for terabytes; some carry a right checksum, as an attacker's file
would. Every file must be refused with a BundleError, or be read as the very model that was written, or, with a right
checksum, be a model that is run or refused.
"""

from __future__ import annotations

import argparse
import copy
import json
import resource
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import describe_machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from prunus.backbone.timm_networks import timm_names
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_bytes, read_bundle
from prunus.bundle.header import checksum
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.errors import BundleError, PrunusError
from prunus.methods.table import adapt
from prunus.pruning.pack import pack
from prunus.runtime.predictor import Predictor

MAX_SECONDS = 5.0
MAX_EXTRA_MEGABYTES = 512
CLASSES = {"birds": ("owl", "wren"), "flowers": ("rose", "tulip", "lily")}
VALUES: tuple[Any, ...] = (
    *(0, -1, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**63, 10**18, 10**30, 0.5, 1e308),
    *("", "x", "bits", "runs", "float16", "bfloat16", "../../etc/passwd", None, True, [], {}, [1], {"a": 1}, [[[]]]),
)


def make_model() -> bytes:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, CLASSES, "union")
    assert net.switches is not None
    with torch.no_grad():
        scores = net.switches.scores_DM
        scores.copy_(torch.rand(scores.shape, generator=torch.Generator().manual_seed(0)) - 0.8)
    entries = {name: DomainEntry(classes=names, preprocess=backbone.preprocess) for name, names in CLASSES.items()}
    return bundle_bytes(pack(net, backbone, entries, {"recipe": {}, "step": 1, "total_steps": 1}))


def split(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def join(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for place in rng.integers(0, len(content), rng.integers(1, 9)):
        changed[place] ^= 1 << int(rng.integers(8))
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
    a, b = sorted(int(place) for place in rng.integers(0, len(content), 2))
    return content[b:] + content[a:b] + content[:a]


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: int(rng.integers(len(content)))]


def header_length(content: bytes, rng: np.random.Generator) -> bytes:
    lengths = (0, 1, 2**20, 2**31, 2**40, 2**63, 2**64 - 1)
    return struct.pack("<Q", lengths[int(rng.integers(len(lengths)))]) + content[8:]


def offsets(content: bytes, rng: np.random.Generator) -> bytes:
    header, data = split(content)
    name = str(rng.choice([key for key in header if key != "__metadata__"]))
    key = str(rng.choice(["data_offsets", "shape", "dtype"]))
    replaced = {
        "data_offsets": [int(value) for value in rng.choice([0, 1, 7, 100, len(data), 2**40, 2**62], 2)],
        "shape": [int(value) for value in rng.choice([0, 1, 3, 2**20, 2**40, 2**62], rng.integers(0, 4))],
        "dtype": str(rng.choice(["F64", "F32", "F16", "U8", "I64", "BOOL", "BF16", "X"])),
    }[key]
    header[name][key] = replaced
    return join(header, data)


def _places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in pairs for place in _places(each, (*path, key)))]


def edit(content: bytes, rng: np.random.Generator, sealed: bool) -> bytes:
    """Replace or remove one value of our own header, with a right checksum or without."""
    header, data = split(content)
    own = json.loads(header["__metadata__"]["prunus"])
    place = [each for each in _places(own) if each][int(rng.integers(len(_places(own)) - 1))]
    target = own
    for key in place[:-1]:
        target = target[key]
    if rng.random() < 0.2:
        del target[place[-1]]
    else:
        target[place[-1]] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
    if sealed:
        own = _sealed(own, header, data)
    header["__metadata__"]["prunus"] = json.dumps(own)
    return join(header, data)


def _sealed(own: Any, header: dict[str, Any], data: bytes) -> Any:  # noqa: ANN401  # any JSON
    try:
        parts = {name: data[slice(*entry["data_offsets"])] for name, entry in header.items() if name != "__metadata__"}
        return own | {"sha256": checksum(json.dumps(own | {"sha256": ""}), parts)}
    except (ValueError, TypeError):
        return own  # not even a header any more


DAMAGE: dict[str, Callable[[bytes, np.random.Generator], bytes]] = {
    "flipped bits": flip_bits,
    "overwritten": overwrite,
    "inserted": insert,
    "removed": remove,
    "moved": move,
    "cut": cut,
    "header length": header_length,
    "offsets, shapes, types": offsets,
    "header value": lambda content, rng: edit(content, rng, sealed=False),
    "header value, right checksum": lambda content, rng: edit(content, rng, sealed=True),
}
SEALED = "header value, right checksum"


def judge(path: Path, kind: str, whole: Bundle) -> str:
    """Read one file and say what came of it; anything but a refusal or a right answer is raised."""
    began = time.perf_counter()
    try:
        found = read_bundle(path)
        if kind == SEALED:
            predictor, size = Predictor(path), found.manifest.domains[found.domains[0]].preprocess.size
            if size <= 256:
                predictor.logits(np.zeros((1, 3, size, size), np.float32), found.domains[0])
            outcome = "another model"
        else:
            assert found.manifest == whole.manifest, "a damaged file was read as another model"
            assert found.arrays.keys() == whole.arrays.keys(), "a damaged file was read as another model"
            assert all(np.array_equal(found.arrays[k], v) for k, v in whole.arrays.items()), "wrong numbers"
            outcome = "the same model"
    except BundleError:
        outcome = "refused"
    except PrunusError:
        assert kind == SEALED, "only a whole file may be refused for what it asks for"
        outcome = "refused"
    assert time.perf_counter() - began < MAX_SECONDS, "took too long"
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rng, content = np.random.default_rng(arguments.seed), make_model()
    outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in DAMAGE}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.prunus"
        path.write_bytes(content)
        whole = read_bundle(path)
        Predictor(path).logits(np.zeros((1, 3, 32, 32), np.float32), "birds")
        timm_names("x")  # loaded when an unknown backbone is named, once, which takes seconds
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for index in track(range(arguments.count), description="damaging", console=Console(stderr=True)):
            kind = list(DAMAGE)[index % len(DAMAGE)]
            path.write_bytes(DAMAGE[kind](content, rng))
            try:
                outcomes[kind][judge(path, kind, whole)] += 1
            except BaseException:
                kept = Path(f"fuzz-failure-{arguments.seed}-{index}.prunus")
                kept.write_bytes(path.read_bytes())
                print(f"failed on {kind}; the file is kept as {kept}")
                raise
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    table = Table(title=f"{arguments.count} damaged files; {extra:.0f} MB more memory at the most")
    for name in ("damage", "refused", "the same model", "another model"):
        table.add_column(name, justify="left" if name == "damage" else "right")
    for kind, counts in outcomes.items():
        table.add_row(kind, *(str(counts[name]) for name in ("refused", "the same model", "another model")))
    Console().print(table)
    print(describe_machine())
    if arguments.json:
        result = {"count": arguments.count, "seed": arguments.seed, "extra_megabytes": extra, "outcomes": outcomes}
        arguments.json.write_text(json.dumps(result | {"machine": describe_machine()}, indent=2) + "\n")
    assert extra < MAX_EXTRA_MEGABYTES, f"{extra:.0f} MB of memory were taken"


if __name__ == "__main__":
    main()
