"""What adding and removing a domain stores, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.file import bundle_bytes, bundle_parts
from prunus.bundle.manifest import DomainEntry
from prunus.editing.domains import DomainParts, add_domain, remove_domain
from prunus.errors import BundleError, UnknownNameError
from prunus.images import Preprocess
from tests.makers.coded_bundles import integer_graph, random_coded_bundle
from tests.makers.drawn_domains import all_logits, drawn_parts
from tests.makers.graph_bundles import random_bundle, varied_graph

SIZE = 12
IMAGES = np.random.default_rng(1).standard_normal((3, 3, SIZE, SIZE)).astype(np.float32)


def drawn(seed: int = 0) -> tuple[Bundle, np.random.Generator]:
    return random_bundle(varied_graph(seed), SIZE, ("a", "b"), 0.5, seed), np.random.default_rng(seed)


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
    other = Preprocess(**parts.entry.preprocess.model_dump() | {"size": 16, "resize": 16})
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
