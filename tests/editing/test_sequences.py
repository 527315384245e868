"""Drawn sequences of additions, removals and replacements: all other domains answer as before, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.editing.domains import add_domain, remove_domain
from prunus.graph.operations import Graph
from prunus.runtime.native_engine import NativeEngine
from tests.makers.drawn_domains import DENSITIES, ENGINES, all_logits, drawn_images, drawn_parts, expected_logits
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph
from tests.makers.token_networks import token_graph

ONE = {"kernel": (1, 1), "pads": (0, 0, 0, 0)}


def blocks_graph() -> Graph:
    """Return 1x1 layers wide enough to be computed from lists, with a residual and a linear layer."""
    return make_graph(
        convolution("stem", [0], (64, 3), activation="relu"),
        convolution("point", [1], (64, 64), **ONE, activation="gelu"),
        convolution("narrow", [2], (40, 64), **ONE),
        convolution("back", [3, 2], (64, 40), **ONE),
        {"op": "mean", "inputs": (4,)},
        convolution("linear", [5], (48, 64), **ONE),
    )


def varied(seed: int) -> Bundle:
    density = float(np.random.default_rng(seed).uniform(0.2, 0.7))
    return random_bundle(varied_graph(seed), 12, ("a", "b"), density, seed)


def tokens(seed: int) -> Bundle:
    """Return a bundle with attention, position embeddings and rearranged values."""
    return random_bundle(token_graph(), 8, ("a", "b"), DENSITIES[seed % 3], seed)


def blocks(seed: int) -> Bundle:
    """Return a bundle whose domains switch blocks of four inputs, on planes of a few pixels."""
    return random_bundle(blocks_graph(), (4, 6, 8)[seed % 3], ("a", "b"), DENSITIES[seed // 3 % 3], seed, lanes=4)


def assert_same_after_any_sequence(bundle: Bundle, folder: Path, seed: int, dtype: DType) -> None:
    """Change a model four times: its stored kernels may grow, by blocks or by single kernels."""
    rng = np.random.default_rng(seed)
    path = folder / "start.prunus"
    write_bundle(path, bundle, dtype)
    bundle = read_bundle(path)
    before = all_logits(bundle, folder, dtype)
    for step in range(4):
        kind = ("add", "remove", "replace")[int(rng.integers(3))] if len(bundle.domains) > 1 else "add"
        name = f"new{step}" if kind == "add" else str(rng.choice(list(bundle.domains)))
        if kind == "remove":
            bundle = remove_domain(bundle, name)
        else:
            parts = drawn_parts(bundle, rng, bool(rng.integers(2)), DENSITIES, lanes=int(rng.choice([1, 4])))
            expected = expected_logits(bundle, parts)
            bundle = add_domain(bundle, name, parts)
        after = all_logits(bundle, folder, dtype)
        others = [key for key in after if key[1] != name]
        assert len(others) == len(ENGINES) * (len(bundle.domains) - (kind != "remove"))
        for key in others:
            assert np.array_equal(after[key], before[key]), (kind, key)
        if kind != "remove":
            scale = max(1.0, float(np.abs(expected).max()))
            assert np.abs(after["numpy", name] - expected).max() <= 1e-3 * scale
        before = after


@pytest.mark.parametrize("seed", range(100))
def test_other_domains_answer_as_before_after_any_sequence_of_changes(seed: int, tmp_path: Path) -> None:
    dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")
    assert_same_after_any_sequence(varied(seed), tmp_path, seed, dtypes[seed % 3])


@pytest.mark.parametrize("seed", range(18))
@pytest.mark.parametrize("make", [tokens, blocks])
def test_domains_of_tokens_and_of_blocks_answer_as_before(
    make: Callable[[int], Bundle], seed: int, tmp_path: Path
) -> None:
    assert_same_after_any_sequence(make(seed), tmp_path, seed, "float32")


@pytest.mark.parametrize("seed", range(3))
def test_single_kernels_change_no_domain_of_blocks(seed: int, tmp_path: Path) -> None:
    bundle = random_bundle(blocks_graph(), (4, 6, 8)[seed], ("a", "b"), 0.3, seed, lanes=4)
    grown = add_domain(bundle, "new", drawn_parts(bundle, np.random.default_rng(seed), True, (0.05,)))
    before, after = (all_logits(content, tmp_path, "float32") for content in (bundle, grown))
    assert all(np.array_equal(after[key], logits) for key, logits in before.items())
    first, second = (dict(NativeEngine(content).paths("a")) for content in (bundle, grown))
    assert first == second
    assert {"pointwise in fours"} == {first[layer] for layer in ("point", "narrow", "back", "linear")}
    assert dict(NativeEngine(grown).paths("new"))["point"] == "pointwise"


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
    bundle = random_bundle(graph, 12, ("a", "b"), density, seed=7)
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
        convolution("stem", [0], (1024, 3), kernel=(12, 12), pads=(0, 0, 0, 0)),
        convolution("point", [1], (1024, 1024), kernel=(1, 1), pads=(0, 0, 0, 0)),
    )
    bundle = random_bundle(graph, 12, names, {"stem": 0.5, "point": 0.97}, seed=2)
    together = NativeEngine(bundle)
    assert {path for _, path in together.paths("d17")} == {"direct", "dense pointwise"}
    for name in ("d0", "d17"):
        alone = bundle
        for other in names:
            alone = alone if other == name else remove_domain(alone, other)
        assert np.array_equal(
            NativeEngine(alone).logits(drawn_images(bundle), name), together.logits(drawn_images(bundle), name)
        )
