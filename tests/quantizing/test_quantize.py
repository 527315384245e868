"""A bundle of floats becomes an 8-bit one that records what it loses."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from prunus.arrays import Floats
from prunus.bundle.eight_bits.record import read_record
from prunus.bundle.file import bundle_bytes, bundle_size
from prunus.integers.steps import Codes
from prunus.measure.eight_bits.summary import eight_bits_of
from prunus.quantizing import coder
from prunus.quantizing.quantize import Settings, quantize
from prunus.quantizing.weights import code_weights
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import integer_graph, without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle


def test_an_8_bit_bundle_says_what_it_loses_and_is_not_larger_than_planned() -> None:
    floats = without_ones(random_bundle(integer_graph(1), 12))
    images = {domain: replace(drawn, validation=15) for domain, drawn in drawn_images(floats, 12, 40).items()}
    seen: list[tuple[str, str, int, int]] = []
    coded = quantize(floats, images, Settings(), partial(_note, seen))
    assert coded.dtype == "int8"
    assert len(bundle_bytes(coded, "int8")) <= bundle_size(floats, "int8")
    record = read_record(coded.manifest.provenance)
    assert record is not None
    assert record.calibration == 12
    for domain, drawn in images.items():
        answers = NumpyEngine(coded).logits(next(drawn.held_out.prepared(40)), domain).argmax(1)
        right = answers == drawn.labels
        assert record.accuracy[domain] == (40, 1.0, round(float(right.mean()), 4), int((~right).sum()), 15)
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


def test_bounds_that_cannot_be_kept_are_recorded_as_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are too coarse for the bounds, and wide layers have no room."""

    def coarse(*arguments: object) -> tuple[Codes, Floats]:
        codes, scale = code_weights(*arguments)  # type: ignore[arg-type]
        return codes // 100 * 100, scale

    monkeypatch.setattr(coder, "code_weights", coarse)
    floats = without_ones(random_bundle(make_graph(convolution("a", [0], (8, 3))), 8))
    found = eight_bits_of(quantize(floats, drawn_images(floats), Settings(most_bytes=0), lambda *_: None))
    assert found is not None
    assert found.within is False
    assert found.notes()[-1].startswith("8 bits lose more accuracy than they may in a (")
