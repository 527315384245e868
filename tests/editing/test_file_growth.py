"""A file grows by the new domain's masks, norms and head and by what the header says of it, to the byte."""

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import write_bundle
from prunus.bundle.manifest import Provenance
from prunus.editing.domains import DomainParts, TensorKey, add_domain
from prunus.editing.provenance import record_addition
from tests.makers.drawn_domains import drawn_parts
from tests.makers.graph_bundles import random_bundle, varied_graph

DOMAINS = ("a", "b", "c")
ORIGIN: Provenance = {
    "prunus": "1",
    "recipe": {"backbone": "wrn14_2", "domains": [{"name": name, "path": name} for name in DOMAINS], "budget": 0.25},
}
OWN: Provenance = {
    "prunus": "2",
    "step": 7,
    "total_steps": 7,
    "recipe": {"backbone": "m.prunus", "domains": [{"name": "new", "path": "new.zip"}], "budget": 1.0},
}
Header = dict[str, Any]


def a_model(keeps_shared: bool) -> Bundle:
    bundle = random_bundle(varied_graph(0), 12, DOMAINS, 0.5, seed=0)
    gone = () if keeps_shared else ("shared/",)
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith(gone)}
    return Bundle(bundle.manifest.model_copy(update={"provenance": ORIGIN}), arrays)


def tensor_keys(bundle: Bundle, prefix: str) -> set[TensorKey]:
    names = [name.removeprefix(prefix).split(".") for name in bundle.arrays if name.startswith(prefix)]
    return {(int(number), role) for number, role in names}


def parts_with(bundle: Bundle, keys: set[TensorKey]) -> DomainParts:
    """Draw a domain with numbers of its own for some tensors."""
    rng = np.random.default_rng(0)
    parts = drawn_parts(bundle, rng, grows=False)
    tensors = {key: rng.standard_normal(shape_of(bundle, key)).astype(np.float32) for key in sorted(keys)}
    return DomainParts(parts.entry, parts.masks, parts.weights, tensors, parts.head)


def shape_of(bundle: Bundle, key: TensorKey) -> tuple[int, ...]:
    number, role = key
    operation = bundle.manifest.graph[number]
    shape: tuple[int, ...] = operation.tensors(bundle.manifest.shapes[operation.inputs[0]][0])[role]
    return shape


def written(folder: Path, bundle: Bundle, dtype: DType) -> tuple[int, Header, Header]:
    """Write a file; return its length, its safetensors header and the header inside, without the checksum."""
    path = folder / "m.prunus"
    write_bundle(path, bundle, dtype)
    content = path.read_bytes()
    container = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    header = json.loads(container["__metadata__"]["prunus"])
    header["sha256"] = "0" * len(header["sha256"])
    return len(content), container, header


def length_of(header: Header, container: Header, growth: dict[str, int]) -> int:
    """Return the length of a file with another header, whose arrays have so many elements more."""
    arrays, end = {}, 0
    for name, entry in container.items():
        if name != "__metadata__":
            width = (entry["data_offsets"][1] - entry["data_offsets"][0]) // max(1, entry["shape"][0])
            size = entry["shape"][0] + growth.get(name, 0)
            arrays[name] = entry | {"shape": [size], "data_offsets": [end, end + width * size]}
            end += width * size
    text = json.dumps({"__metadata__": {"prunus": compact(header)}} | arrays, separators=(",", ":"))
    return 8 + -(-len(text) // 8) * 8 + end


def compact(content: Header) -> str:
    return json.dumps(content, separators=(",", ":"))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("keeps_shared", [False, True])
def test_a_file_grows_by_masks_norms_head_and_what_its_header_says(
    dtype: DType, keeps_shared: bool, tmp_path: Path
) -> None:
    """Check also that tensors that all domains shared are then stored once for each of them: the format's price."""
    bundle = a_model(keeps_shared)
    own, shared = tensor_keys(bundle, "norm/a/"), tensor_keys(bundle, "shared/")
    assert bool(shared) == keeps_shared
    parts = parts_with(bundle, own | shared)
    larger = add_domain(bundle, "new", parts)
    origin = record_addition(bundle.manifest.provenance, "new", OWN)
    larger = Bundle(larger.manifest.model_copy(update={"provenance": origin}), larger.arrays)
    _, container, header = written(tmp_path, bundle, dtype)
    length, _, found = written(tmp_path, larger, dtype)

    header["manifest"]["domains"]["new"] = parts.entry.model_dump(mode="json", exclude_defaults=True)
    provenance = header["manifest"]["provenance"]
    provenance["recipe"]["domains"].append(OWN["recipe"]["domains"][0])
    provenance["added"] = {"new": OWN}
    names = [f"{number}.{role}" for number, role in sorted(own | shared)]
    header |= {"norms": names, "shared": []}
    assert found == header
    sizes = {key: prod(shape_of(bundle, key)) for key in own | shared}
    growth = {
        "masks": sum(-(-int(bundle.union(layer).sum()) // 8) for layer in bundle.manifest.convs),
        "norms": sum(sizes[key] for key in own) + (len(DOMAINS) + 1) * sum(sizes[key] for key in shared),
        "shared": -sum(sizes[key] for key in shared),
        "heads": len(parts.entry.classes) * (bundle.manifest.num_features + 1),
    }
    assert length == length_of(found, container, growth)


def test_tensors_that_a_new_domain_does_not_change_stay_shared() -> None:
    bundle = a_model(keeps_shared=True)
    keys = tensor_keys(bundle, "shared/")
    parts = parts_with(bundle, tensor_keys(bundle, "norm/a/"))
    same = {key: tensor for key in keys if (tensor := bundle.tensor("a", *key)) is not None}
    parts = DomainParts(parts.entry, parts.masks, parts.weights, {**parts.tensors, **same}, parts.head)
    assert tensor_keys(add_domain(bundle, "new", parts), "shared/") == keys
