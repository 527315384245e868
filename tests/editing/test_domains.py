"""Drawn sequences of additions, removals and replacements: all other domains answer as before, bit by bit."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import numpy as np
import pytest

from prunus.arrays import DType, Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.dtypes import encode, widened
from prunus.bundle.file import bundle_bytes, bundle_parts, read_bundle, write_bundle
from prunus.bundle.manifest import DomainEntry
from prunus.editing.domains import DomainParts, add_domain, remove_domain
from prunus.errors import BundleError, UnknownNameError
from prunus.graph.network import GraphNetwork, Node
from prunus.images import Preprocess
from prunus.runtime import _native
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, torch_logits, varied_graph

SIZE = 12
IMAGES = np.random.default_rng(1).standard_normal((3, 3, SIZE, SIZE)).astype(np.float32)
ENGINES = ("numpy", *_native.available_kernels())
PREPROCESS = Preprocess(size=SIZE, resize=SIZE, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.3))


def drawn_parts(bundle: Bundle, rng: np.random.Generator, grows: bool) -> DomainParts:
    """Draw a domain: masks inside the stored kernels, or also outside of them, and its own numbers."""
    manifest = bundle.manifest
    masks, weights = {}, {}
    for layer, conv in manifest.convs.items():
        mask_OI = rng.random((conv.out_channels, conv.in_channels)) < 0.5
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
    return DomainParts(DomainEntry(classes=classes, preprocess=PREPROCESS), masks, weights, tensors, head)


def all_logits(bundle: Bundle, folder: Path, dtype: DType) -> dict[tuple[str, str], Floats]:
    """Write a file, read it again, and classify images of all its domains with all engines."""
    path = folder / "m.prunus"
    write_bundle(path, bundle, dtype)
    content = read_bundle(path)
    engines = {
        name: NumpyEngine(content) if name == "numpy" else NativeEngine(content, kernels=name) for name in ENGINES
    }
    return {
        (name, domain): engine.logits(IMAGES, domain) for name, engine in engines.items() for domain in content.domains
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
    network = GraphNetwork(tuple(nodes), SIZE, weights, masks, ((head[0], head[1]),))
    return torch_logits(network, IMAGES).astype(np.float32)


@pytest.mark.parametrize("seed", range(100))
def test_other_domains_answer_as_before_after_any_sequence_of_changes(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    dtype: DType = ("float32", "float16", "bfloat16")[seed % 3]
    path = tmp_path / "start.prunus"
    write_bundle(path, random_bundle(varied_graph(seed), SIZE, ("a", "b"), float(rng.uniform(0.2, 0.7)), seed), dtype)
    bundle = read_bundle(path)
    before = all_logits(bundle, tmp_path, dtype)
    for step in range(4):
        kind = ("add", "remove", "replace")[int(rng.integers(3))] if len(bundle.domains) > 1 else "add"
        name = f"new{step}" if kind == "add" else str(rng.choice(list(bundle.domains)))
        if kind == "remove":
            bundle = remove_domain(bundle, name)
        else:
            parts = drawn_parts(bundle, rng, grows=bool(rng.integers(2)))
            expected = expected_logits(bundle, parts)
            bundle = add_domain(bundle, name, parts)
        after = all_logits(bundle, tmp_path, dtype)
        others = [key for key in after if key[1] != name]
        assert len(others) == len(ENGINES) * (len(bundle.domains) - (kind != "remove"))
        for key in others:
            assert np.array_equal(after[key], before[key]), (kind, key)
        if kind != "remove":
            scale = max(1.0, float(np.abs(expected).max()))
            assert np.abs(after["numpy", name] - expected).max() <= 1e-3 * scale
        before = after


@pytest.mark.parametrize("density", [0.1, 0.3, 0.9, 1.0])
def test_wide_1x1_layers_answer_as_before_whatever_other_domains_use(density: float, tmp_path: Path) -> None:
    """Check layers that the native engine splits into blocks of inputs, or computes as dense matrices."""
    graph = make_graph(
        convolution("stem", [0], (200, 3), stride=(2, 2)),
        convolution("point", [1], (64, 200), kernel=(1, 1), pads=(0, 0, 0, 0), activation="relu"),
        convolution("strided", [2], (200, 64), kernel=(1, 1), pads=(0, 0, 0, 0), stride=(2, 2)),
        {"op": "mean", "inputs": (3,)},
        convolution("pixel", [4], (96, 200), kernel=(1, 1), pads=(0, 0, 0, 0)),
    )
    bundle = random_bundle(graph, SIZE, ("a", "b"), density, seed=7)
    rng = np.random.default_rng(7)
    before = all_logits(bundle, tmp_path, "float32")
    grown = add_domain(bundle, "new", drawn_parts(bundle, rng, grows=True))
    for changed, kept in (
        (grown, ("a", "b")),
        (remove_domain(bundle, "a"), ("b",)),
        (remove_domain(grown, "a"), ("b",)),
    ):
        after = all_logits(changed, tmp_path, "float32")
        for engine in ENGINES:
            for domain in kept:
                assert np.array_equal(after[engine, domain], before[engine, domain]), (engine, domain)


def test_many_dense_domains_answer_as_each_does_alone() -> None:
    """Use more dense weights than the native engine keeps copies of: the last domains make theirs in every run."""
    names = tuple(f"d{index}" for index in range(18))
    graph = make_graph(
        convolution("stem", [0], (1024, 3), kernel=(SIZE, SIZE), pads=(0, 0, 0, 0)),
        convolution("point", [1], (1024, 1024), kernel=(1, 1), pads=(0, 0, 0, 0)),
    )
    bundle = random_bundle(graph, SIZE, names, {"stem": 0.5, "point": 0.97}, seed=2)
    together = NativeEngine(bundle)
    assert {path for _, path in together.paths("d17")} == {"direct", "dense pointwise"}
    for name in ("d0", "d17"):
        alone = bundle
        for other in names:
            alone = alone if other == name else remove_domain(alone, other)
        assert np.array_equal(NativeEngine(alone).logits(IMAGES, name), together.logits(IMAGES, name))


def drawn(seed: int = 0) -> tuple[Bundle, np.random.Generator]:
    return random_bundle(varied_graph(seed), SIZE, ("a", "b"), 0.5, seed), np.random.default_rng(seed)


def with_all_norms(bundle: Bundle) -> Bundle:
    """Return a bundle whose domains differ in every tensor that they have, so none is stored once for all."""
    arrays = {name: array for name, array in bundle.arrays.items() if not name.startswith("shared/")}
    return Bundle(bundle.manifest, arrays)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_file_grows_by_masks_norms_head_and_its_entry_in_the_header_only(dtype: DType) -> None:
    bundle, rng = drawn()
    bundle = with_all_norms(bundle)
    known = {tuple(name.split("/")[2].split(".")) for name in bundle.arrays if name.startswith("norm/")}
    parts = drawn_parts(bundle, rng, grows=False)
    shapes = {(n, role): s for n, op in enumerate(bundle.manifest.graph) for role, s in _shapes(bundle, n, op).items()}
    tensors = {(int(n), role): rng.standard_normal(shapes[int(n), role]).astype(np.float32) for n, role in known}
    parts = DomainParts(parts.entry, parts.masks, parts.weights, tensors, parts.head)
    larger = add_domain(bundle, "new", parts)
    before, after = bundle_parts(bundle, dtype), bundle_parts(larger, dtype)
    width = {"float32": 4, "float16": 2}[dtype]
    kept = [int(bundle.union(layer).sum()) for layer in bundle.manifest.convs]
    classes = len(parts.entry.classes)
    assert {name: after[name] - before[name] for name in before} == {
        "kernels": 0,
        "index": 0,
        "shared": 0,
        "masks": sum(-(-count // 8) for count in kept),
        "norms": 4 * sum(prod(shape) for key, shape in shapes.items() if key in tensors),
        "heads": width * classes * (bundle.manifest.num_features + 1),
    }
    texts = [_header_text(bundle_bytes(content, dtype)) for content in (bundle, larger)]
    headers = [json.loads(json.loads(text)["__metadata__"]["prunus"]) for text in texts]
    del headers[1]["manifest"]["domains"]["new"]
    for header in headers:
        del header["sha256"]
    assert headers[0] == headers[1]


def _shapes(bundle: Bundle, number: int, operation) -> dict[str, tuple[int, ...]]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    shapes: dict[str, tuple[int, ...]] = operation.tensors(bundle.manifest.shapes[operation.inputs[0]][0])
    return shapes


def _header_text(content: bytes) -> str:
    return content[8 : 8 + int.from_bytes(content[:8], "little")].decode()


def test_what_was_added_can_be_removed_again() -> None:
    bundle, rng = drawn(3)
    back = remove_domain(add_domain(bundle, "new", drawn_parts(bundle, rng, grows=True)), "new")
    assert back.manifest == bundle.manifest
    assert bundle_bytes(back) == bundle_bytes(bundle)


def test_removing_a_domain_drops_the_kernels_that_only_it_used() -> None:
    bundle, _ = drawn(4)
    smaller = remove_domain(bundle, "a")
    for layer in bundle.manifest.convs:
        assert np.array_equal(smaller.union(layer), bundle.mask("b", layer))
        assert np.array_equal(smaller.mask("b", layer), bundle.mask("b", layer))
    assert sum(bundle_parts(smaller).values()) < sum(bundle_parts(bundle).values())


def test_a_replaced_domain_keeps_its_place() -> None:
    bundle, rng = drawn(5)
    parts = drawn_parts(bundle, rng, grows=False)
    replaced = add_domain(bundle, "a", parts)
    assert replaced.domains == ("a", "b")
    assert replaced.manifest.domains["a"] == parts.entry


def test_the_last_domain_stays() -> None:
    bundle, _ = drawn()
    alone = remove_domain(bundle, "a")
    with pytest.raises(BundleError, match="'b' is the only domain of the model, and a model needs one"):
        remove_domain(alone, "b")


def test_an_unknown_domain_is_refused() -> None:
    bundle, _ = drawn()
    with pytest.raises(UnknownNameError, match="unknown domain 'c'; known: a, b"):
        remove_domain(bundle, "c")


def test_images_of_another_size_are_refused() -> None:
    bundle, rng = drawn()
    parts = drawn_parts(bundle, rng, grows=False)
    other = Preprocess(**PREPROCESS.model_dump() | {"size": 16, "resize": 16})
    entry = DomainEntry(classes=parts.entry.classes, preprocess=other)
    with pytest.raises(BundleError, match="'new' has images of 16 pixels, but the model takes 12"):
        add_domain(bundle, "new", DomainParts(entry, parts.masks, parts.weights, parts.tensors, parts.head))


def test_a_domain_is_removed_from_an_8_bit_file_and_the_others_answer_as_before(tmp_path: Path) -> None:
    bundle = random_coded_bundle(integer_graph(0), SIZE)
    before, after = (all_logits(content, tmp_path, "int8") for content in (bundle, remove_domain(bundle, "a")))
    assert {domain for _, domain in after} == {"b"}
    assert all(np.array_equal(logits, before[key]) for key, logits in after.items())


def test_no_domain_is_added_to_an_8_bit_file() -> None:
    bundle = random_coded_bundle(integer_graph(0), SIZE)
    parts = drawn_parts(bundle, np.random.default_rng(0), grows=False)
    with pytest.raises(
        BundleError, match="a domain cannot be added to an 8-bit model file; add it to a file of floats"
    ):
        add_domain(bundle, "c", parts)
