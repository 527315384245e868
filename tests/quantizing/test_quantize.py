"""A bundle of floats becomes an 8-bit one that records what it loses."""

from functools import partial

import numpy as np

from prunus.bundle.eight_bits.record import read_record
from prunus.bundle.file import bundle_bytes, bundle_size
from prunus.measure.inspection import eight_bits_of
from prunus.quantizing.quantize import Settings, quantize
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import random_bundle


def test_an_8_bit_bundle_says_what_it_loses_and_is_not_larger_than_planned() -> None:
    floats = without_ones(random_bundle(integer_graph(1), 12))
    images = drawn_images(floats, 12, 40)
    seen: list[tuple[str, str, int, int]] = []
    coded = quantize(floats, images, Settings(), partial(_note, seen))
    assert coded.dtype == "int8"
    assert len(bundle_bytes(coded, "int8")) <= bundle_size(floats, "int8")
    record = read_record(coded.manifest.provenance)
    assert record is not None
    assert record.calibration == 12
    for domain, drawn in images.items():
        answers = NumpyEngine(coded).logits(next(drawn.held_out.prepared(40)), domain).argmax(1)
        assert record.accuracy[domain] == (40, 1.0, round(float((answers == drawn.labels).mean()), 4))
    assert ("calibrating", "a", 12, 12) in seen
    assert ("measuring 8 bits of", "b", 40, 40) in seen


def _note(seen: list[tuple[str, str, int, int]], *step: object) -> None:
    seen.append(step)  # type: ignore[arg-type]


def test_the_same_images_give_the_same_bundle() -> None:
    floats = random_bundle(integer_graph(2), 12)
    first, second = (quantize(floats, drawn_images(floats), Settings(), lambda *_: None) for _ in range(2))
    assert bundle_bytes(first, "int8") == bundle_bytes(second, "int8")
    assert all(np.array_equal(first.arrays[name], array) for name, array in second.arrays.items())


def test_a_domain_without_held_out_images_is_calibrated_and_not_measured() -> None:
    floats = random_bundle(integer_graph(2), 12)
    images = drawn_images(floats) | {"b": drawn_images(floats, held_out=0)["b"]}
    found = eight_bits_of(quantize(floats, images, Settings(), lambda *_: None))
    assert found is not None
    assert list(found.held_out) == ["a"]
    assert found.unmeasured == ("b",)
