"""Every value gets a coding of its own, unless an operation needs the same one for its input and its result."""

import numpy as np
import pytest

from prunus.bundle.eight_bits.splitting import Origin, possible_integers, split_activations
from prunus.quantizing.calibration import calibrate, coding_groups, value_places
from tests.makers.coded_bundles import without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle, varied_graph

MAX = {"op": "pool", "kind": "max", "kernel": (2, 2), "stride": (2, 2)}


def test_values_that_keep_codes_and_chained_concatenations_share_a_coding() -> None:
    graph = make_graph(
        convolution("a", [0], (4, 3)),
        MAX | {"inputs": (1,)},
        {"op": "append_zeros", "inputs": (2,), "count": 1},
        convolution("b", [3], (4, 5)),
        {"op": "cat", "inputs": (3, 4)},
        {"op": "cat", "inputs": (5, 4)},
        MAX | {"inputs": (6,)},
    )
    groups = coding_groups(graph, range(len(graph)))
    assert groups[1] == groups[2] == groups[3] == [1, 2, 3]
    assert groups[5] == groups[6] == groups[7] == [5, 6, 7]
    assert groups[0] == [0]
    assert groups[4] == [4]


def test_values_are_named_by_what_they_are_before_operations_are_split() -> None:
    origins = (Origin(0), Origin(1), Origin(1, is_activation=True), Origin(2))
    assert value_places(origins) == [(-1, True), (0, True), (1, False), (1, True), (2, True)]


@pytest.mark.parametrize("seed", range(3))
def test_the_codings_of_a_part_are_those_of_the_whole(seed: int) -> None:
    bundle = random_bundle(varied_graph(seed), 12, seed=seed)
    images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle).items()}
    calibration = calibrate(bundle, images, "largest")
    possible = possible_integers(bundle)
    whole, part = (split_activations(bundle, chosen) for chosen in (possible, possible[::2]))
    for domain in bundle.domains:
        codings = []
        for split in (whole, part):
            rows = calibration.arrays(split)[f"coding/{domain}/scale"].tolist()
            places = value_places(split.origins)
            codings.append({places[v]: row for v, row in zip(split.bundle.manifest.coded, rows, strict=True)})
        assert codings[1].items() <= codings[0].items()
        assert len(codings[1]) < len(codings[0])


def test_domains_have_codings_of_their_own_that_cover_their_numbers() -> None:
    bundle = without_ones(random_bundle(make_graph(convolution("a", [0], (4, 3))), 8))
    drawn = drawn_images(bundle)
    dark = {"a": drawn["a"].calibration, "b": drawn["b"].calibration}
    dark["b"].pixels[:] //= 8
    arrays = calibrate(bundle, dark, "largest").arrays(split_activations(bundle, possible_integers(bundle)))
    first, second = (arrays[f"coding/{domain}/scale"][0] for domain in "ab")
    assert first > second
    low, high = (float(end) for end in (next(dark["a"].prepared(99)).min(), next(dark["a"].prepared(99)).max()))
    assert float(first) == pytest.approx((high - low) / 255, rel=1e-5)
    assert int(arrays["coding/a/zero"][0]) == np.rint(-low / float(first))


def test_the_numbers_before_an_activation_have_a_range_that_suits_its_results() -> None:
    plain, squashed = (
        make_graph(convolution("a", [0], (4, 3)) | {"activation": activation})
        for activation in ("none", "hard_sigmoid")
    )
    spans = []
    for graph in (plain, squashed):
        bundle = without_ones(random_bundle(graph, 8))
        bundle.arrays["kernels/a"] = 20 * bundle.kernels("a")
        images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle).items()}
        arrays = calibrate(bundle, images, "mse").arrays(split_activations(bundle, possible_integers(bundle)))
        spans.append(255 * float(arrays["coding/a/scale"][1]))
    assert spans[0] > 20
    assert spans[1] < 12  # hard_sigmoid changes from -3 to 3 only
