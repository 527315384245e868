"""Operations return to floats until little enough is lost; layers stay wide only if there is room."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.bounds import Loss, Losses, is_within
from prunus.bundle.eight_bits.checks import check_codes
from prunus.bundle.eight_bits.record import KEY, longest_record
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import bundle_size
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import Coder, make_coder
from prunus.quantizing.gate import Decision, Gate, _shortest
from prunus.quantizing.judging import Judge
from tests.makers.coded_bundles import without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle

GRAPH = make_graph(
    convolution("a", [0], (8, 3), activation="relu"),
    convolution("b", [1], (8, 8), activation="silu"),
    convolution("c", [2, 1], (8, 8), activation="relu"),
    {"op": "mean", "inputs": (3,)},
)
GOOD, BAD = {"a": Loss(100, 0.9, 0.9)}, {"a": Loss(100, 0.9, 0.8)}


@pytest.fixture
def coder() -> Coder:
    bundle = without_ones(random_bundle(GRAPH, 8, density=1.0))
    images = {domain: drawn.calibration for domain, drawn in drawn_images(bundle).items()}
    return make_coder(bundle, calibrate(bundle, images, "largest"), "largest")


class _Judge(Judge):
    """Loses too much as long as a rule says so; operations with higher numbers change the logits more."""

    def __init__(self, loses: Callable[[Bundle], bool]) -> None:
        self.loses = loses
        self.judged: list[int] = []

    def losses(self, bundle: Bundle) -> Losses:
        check_codes(bundle.manifest, bundle.arrays)
        self.judged.append(len(bundle.manifest.integers))
        return BAD if self.loses(bundle) else GOOD

    def distance(self, bundle: Bundle) -> float:
        layers = list(bundle.manifest.convs)
        return float(bundle.manifest.integers[0] if bundle.manifest.integers else _narrow_index(bundle, layers))


def _narrow_index(bundle: Bundle, layers: list[str]) -> int:
    return next((index for index, layer in enumerate(layers) if layer not in bundle.manifest.wide), 0)


def test_what_loses_little_is_all_integers(coder: Coder) -> None:
    judge = _Judge(lambda bundle: False)
    bundle = Gate(coder, judge).decide().bundle
    assert len(bundle.manifest.integers) == len(bundle.manifest.graph) == 5  # silu is an operation of its own
    assert judge.judged == [5]


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_as_few_operations_as_possible_return_to_floats(coder: Coder, most: int) -> None:
    decision = Gate(coder, _Judge(lambda bundle: len(bundle.manifest.integers) > most)).decide()
    assert len(decision.bundle.manifest.integers) == (most if most != 2 else 1)  # b and its activation go together
    assert decision.losses == GOOD
    floats = set(possible_integers(decision.bundle)) - set(decision.bundle.manifest.integers)
    assert min(floats) > max(decision.bundle.manifest.integers, default=-1)  # those that change the logits most
    assert decision.bundle.manifest.wide == ()


def test_layers_stay_wide_only_if_floats_are_not_enough_and_the_others_compute_with_integers(coder: Coder) -> None:
    judge = _Judge(lambda bundle: len(bundle.manifest.wide) < 2)
    manifest = Gate(coder, judge).decide().bundle.manifest
    assert manifest.wide == ("b", "c")
    assert [manifest.graph[number].op for number in manifest.integers] == ["conv", "mean"]  # a and the last one
    assert judge.judged[-1] == 2  # at once


def test_beside_wide_layers_as_few_operations_as_possible_return_to_floats(coder: Coder) -> None:
    judge = _Judge(lambda bundle: len(bundle.manifest.wide) < 1 or len(bundle.manifest.integers) > 2)
    decision = Gate(coder, judge).decide()
    assert decision.bundle.manifest.wide == ("c",)
    assert decision.losses == GOOD
    assert [decision.bundle.manifest.graph[number].op for number in decision.bundle.manifest.integers] == ["conv"]
    never = Gate(coder, _Judge(lambda bundle: len(bundle.manifest.wide) < 1 or bool(bundle.manifest.integers)))
    assert never.decide().bundle.manifest.integers == ()


def _largest(coder: Coder, wide: str) -> int:
    """Return the bytes of a file with one wide layer, all other operations in integers, and the longest record."""
    numbers = [n for n, op in enumerate(coder.bundle.manifest.graph) if getattr(op, "layer", None) != wide]
    bundle = coder.coded(numbers, (wide,))
    provenance = bundle.manifest.provenance | {KEY: longest_record(bundle.domains)}
    return bundle_size(replace(bundle, manifest=bundle.manifest.model_copy(update={"provenance": provenance})), "int8")


def test_layers_stay_wide_only_as_far_as_there_is_room(coder: Coder) -> None:
    room = _largest(coder, "c")
    decision = Gate(coder, _Judge(lambda bundle: True), room).decide()
    assert decision.bundle.manifest.wide == ("c",)
    assert decision.losses == BAD
    assert len(decision.bundle.manifest.integers) == 4  # they lose no more than floats
    assert Gate(coder, _Judge(lambda bundle: True), room - 1).decide().bundle.manifest.wide == ()


def test_where_floats_lose_too_much_integers_lose_no_more(coder: Coder) -> None:
    worse = {"a": Loss(100, 0.9, 0.7)}

    class _Both(_Judge):
        def losses(self, bundle: Bundle) -> Losses:
            return worse if len(bundle.manifest.integers) > 3 else BAD

    decision = Gate(coder, _Both(lambda bundle: True), 0).decide()
    assert decision.losses == BAD
    assert len(decision.bundle.manifest.integers) == 3


def test_the_ranking_of_operations_and_layers_is_watched(coder: Coder) -> None:
    seen: list[tuple[str, int, int]] = []
    Gate(coder, _Judge(lambda bundle: True), None, lambda *step: seen.append(step)).decide()
    operations, layers = len(coder.bundle.manifest.graph), len(coder.bundle.manifest.convs)
    assert seen == [
        *(("operations", done, operations) for done in range(1, operations + 1)),
        *(("layers", done, layers) for done in range(1, layers + 1)),
    ]


def test_without_room_for_a_wide_layer_none_is_ranked_and_no_choice_is_measured_twice(coder: Coder) -> None:
    seen: list[str] = []
    judge = _Judge(lambda bundle: True)
    found = Gate(coder, judge, 0, lambda what, *_: seen.append(what)).decide()
    assert judge.judged == [5, 0]  # integers lose no more than floats
    assert len(found.bundle.manifest.integers) == 5
    assert set(seen) == {"operations"}


@pytest.mark.parametrize("is_limited", [False, True])
def test_with_room_for_wide_layers_no_choice_is_measured_twice(coder: Coder, is_limited: bool) -> None:
    measured: list[tuple[tuple[int, ...], tuple[str, ...]]] = []

    class _Noting(_Judge):
        def losses(self, bundle: Bundle) -> Losses:
            measured.append((bundle.manifest.integers, bundle.manifest.wide))
            return super().losses(bundle)

    judge = _Noting(lambda bundle: len(bundle.manifest.wide) < 3 or len(bundle.manifest.integers) > 0)
    Gate(coder, judge, _largest(coder, "c") if is_limited else None).decide()
    assert len(measured) == len(set(measured)) > 2


def test_the_shortest_list_is_found_with_few_measurements(coder: Coder) -> None:
    for first in (1, 2, 5, 37, 200):
        tried: list[int] = []

        def decide(count: int, first: int = first, tried: list[int] = tried) -> Decision:
            tried.append(count)
            return Decision(coder.bundle, GOOD if count >= first else BAD)

        assert _shortest(200, decide, is_within) is not None
        assert first in tried
        assert len(tried) <= 18
    assert _shortest(3, lambda count: Decision(coder.bundle, BAD), is_within) is None


def test_a_coarse_coding_is_found_by_its_images(coder: Coder) -> None:
    """The coding of one value is far too coarse: the operations that make and read it return to floats."""
    places = {domain: dict(codings) for domain, codings in coder.calibration.by_domain.items()}
    for codings in places.values():
        codings[1, True] = (codings[1, True][0] * 200, 0)  # the result of b and its activation
    broken = replace(coder, calibration=replace(coder.calibration, by_domain=places))
    judge = Judge(coder.bundle, drawn_images(coder.bundle, held_out=200), 1, lambda *_: None)
    assert max(loss.lost for loss in judge.losses(broken.coded(possible_integers(coder.bundle))).values()) > 0.05
    decision = Gate(broken, judge).decide()
    assert max(loss.lost for loss in decision.losses.values()) <= 0.01
    coded = decision.bundle.manifest.coded
    scales = decision.bundle.arrays["coding/a/scale"]
    assert np.float32(places["a"][1, True][0]) not in scales
    assert len(coded) == len(scales)


def test_operations_return_to_floats_if_gains_hide_losses(coder: Coder) -> None:
    class _Turning(_Judge):
        def losses(self, bundle: Bundle) -> Losses:
            return {"a": Loss(100, 0.9, 0.9, turned=2 * len(bundle.manifest.integers))}

    decision = Gate(coder, _Turning(lambda bundle: False)).decide()
    assert decision.losses["a"].turned == 2  # of 100, in which 5 may turn
    assert len(decision.bundle.manifest.integers) == 1  # of 5; the two of b go together


@pytest.mark.parametrize("most", [1, 5])
def test_biases_are_moved_for_the_operations_that_compute_with_integers(coder: Coder, most: int) -> None:
    images = {domain: drawn.calibration for domain, drawn in drawn_images(coder.bundle).items()}
    seen: list[str] = []
    judge = _Judge(lambda bundle: len(bundle.manifest.integers) > most)
    found = Gate(coder, judge, images=images, correcting=lambda domain, *_: seen.append(domain)).decide().bundle
    assert len(found.manifest.integers) == most
    integers = (0,) if most == 1 else possible_integers(coder.bundle)
    expected = coder.corrected(images, integers).coded(integers)
    assert found.arrays.keys() == expected.arrays.keys()
    assert all(np.array_equal(array, expected.arrays[name]) for name, array in found.arrays.items())
    assert len(seen) == len(judge.judged) * len(images)  # anew for every choice
