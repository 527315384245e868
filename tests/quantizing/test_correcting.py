"""Biases make up for what rounding moves, and files do not grow."""

from dataclasses import replace

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers, split_activations
from prunus.bundle.file import bundle_size
from prunus.graph.operations import Conv, Mean
from prunus.quantizing import correcting
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import Coder, make_coder
from prunus.quantizing.images import Pictures
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import random_bundle, varied_graph

Images = dict[str, Pictures]


def _coder(seed: int) -> tuple[Coder, Images]:
    bundle = without_ones(random_bundle(varied_graph(seed), 12, seed=seed))
    images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle).items()}
    return make_coder(bundle, calibrate(bundle, images, "mse"), "largest"), images


def _mean_error(floats: Bundle, coded: Bundle, images: Images) -> float:
    """Return how far the mean logits of the engine of integers are from those of floats."""
    total = 0.0
    for domain, pictures in images.items():
        batch = next(pictures.prepared(len(pictures)))
        means = [NumpyEngine(bundle).logits(batch, domain).mean(axis=0) for bundle in (floats, coded)]
        total += float(np.abs(means[0] - means[1]).mean() / np.abs(means[0]).mean())
    return total


def _chain(seed: int) -> Bundle:
    """Return a chain of convolutions with biases per domain, whose logits are means of channels.

    One weight of an output is far larger than the others, which are rounded coarsely.
    """
    graph = tuple(
        Conv(
            op="conv",
            inputs=(number,),
            layer=f"layer{number}",
            channels=(12, 12 if number else 3),
            kernel=(1, 1),
            activation="hard_swish" if number < 5 else "none",
        )
        for number in range(6)
    )
    bundle = random_bundle((*graph, Mean(op="mean", inputs=(6,))), 8, density=0.7, seed=seed)
    rng = np.random.default_rng(seed)
    biases = {
        f"norm/{domain}/{number}.bias": rng.normal(0, 0.3, 12).astype(np.float32)
        for domain in bundle.domains
        for number in range(6)
    }
    heads = {f"head/{domain}/weight": np.eye(3, 12, dtype=np.float32) for domain in bundle.domains}
    for number in range(6):
        kernels = bundle.kernels(f"layer{number}")
        kernels[::8] *= 12
        bundle.arrays[f"kernels/layer{number}"] = kernels
    others = {name: array for name, array in bundle.arrays.items() if not name.startswith("shared/")}
    return without_ones(Bundle(bundle.manifest, others | biases | heads))


@pytest.mark.parametrize("seed", range(4))
def test_the_mean_logits_of_integers_come_nearer_to_those_of_floats(seed: int) -> None:
    bundle = _chain(seed)
    images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle, 64).items()}
    coder = make_coder(bundle, calibrate(bundle, images, "mse"), "largest")
    integers = possible_integers(bundle)
    before = _mean_error(bundle, coder.coded(integers), images)
    assert _mean_error(bundle, coder.corrected(images, integers).coded(integers), images) < 0.5 * before


def test_only_biases_of_convolutions_that_one_domain_has_are_moved_and_the_file_keeps_its_size() -> None:
    moved = 0
    for seed in range(4):
        coder, images = _coder(seed)
        integers = possible_integers(coder.bundle)
        plain, corrected = coder.coded(integers), coder.corrected(images, integers).coded(integers)
        graph = plain.manifest.graph
        for name, array in corrected.arrays.items():
            if not np.array_equal(array, plain.arrays[name]):
                folder, _, key = name.rpartition("/")
                assert folder.startswith("norm/")
                assert key.endswith(".bias")
                assert isinstance(graph[int(key.partition(".")[0])], Conv)
                moved += 1
        assert bundle_size(corrected, "int8") == bundle_size(plain, "int8")
    assert moved > 4


@pytest.mark.parametrize("seed", range(4))
def test_biases_that_make_up_for_integers_are_wrong_for_floats(seed: int) -> None:
    bundle = _chain(seed)
    images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle, 64).items()}
    coder = make_coder(bundle, calibrate(bundle, images, "mse"), "largest")
    of_integers = coder.corrected(images, possible_integers(bundle))
    own, foreign = coder.corrected(images, ()), of_integers
    assert _mean_error(bundle, own.coded(()), images) < 0.1 * _mean_error(bundle, foreign.coded(()), images)


def test_where_nothing_is_rounded_no_bias_moves() -> None:
    coder, images = _coder(0)
    wide = tuple(coder.bundle.manifest.convs)
    fine, coarse = (coder.corrected(images, (), layers).shifts for layers in (wide, ()))
    assert fine.keys() == coarse.keys()
    most_fine, most_coarse = (max(float(np.abs(shift).max()) for shift in shifts.values()) for shifts in (fine, coarse))
    assert most_fine < 0.1 * most_coarse  # float16 rounds a little too


def test_only_domains_with_images_move_their_biases() -> None:
    coder, images = _coder(1)
    integers = possible_integers(coder.bundle)
    assert coder.corrected({}, integers).shifts == {}
    first = dict(list(images.items())[:1])
    assert {domain for domain, _ in coder.corrected(first, integers).shifts} == set(first)


def test_large_values_are_corrected_with_fewer_images(monkeypatch: pytest.MonkeyPatch) -> None:
    coder, images = _coder(1)
    integers = possible_integers(coder.bundle)
    all_of_them = coder.corrected(images, integers).shifts
    first = {domain: replace(pictures, pixels=pictures.pixels[:1]) for domain, pictures in images.items()}
    monkeypatch.setattr(correcting, "MOST_BYTES", 1)
    one = coder.corrected(images, integers).shifts
    assert all(np.array_equal(one[key], shift) for key, shift in coder.corrected(first, integers).shifts.items())
    assert any(not np.array_equal(one[key], shift) for key, shift in all_of_them.items())


def test_the_same_operations_are_corrected_whichever_compute_with_integers() -> None:
    coder, images = _coder(2)
    possible = possible_integers(coder.bundle)
    for integers in (possible, possible[::2], ()):
        corrected = coder.corrected(images, integers)
        assert corrected.shifts
        split, coded = split_activations(coder.bundle, integers), corrected.coded(integers)
        for now, origin in enumerate(split.origins):
            for domain in coded.domains:
                name = f"norm/{domain}/{now}.bias"
                shift = None if origin.is_activation else corrected.shifts.get((domain, origin.number))
                if shift is not None:
                    np.testing.assert_array_equal(
                        coded.arrays[name], split.bundle.arrays[name].astype(np.float32) + shift
                    )
