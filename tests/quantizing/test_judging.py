"""What 8 bits lose is measured on held-out images."""

import numpy as np

from prunus.bundle.eight_bits.bounds import Loss
from prunus.quantizing.images import Drawn
from prunus.quantizing.judging import Judge
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle


def test_a_bundle_loses_nothing_against_itself_and_others_do() -> None:
    bundle = random_bundle(make_graph(convolution("a", [0], (8, 3))), 8)
    seen: list[tuple[str, int, int]] = []
    images = drawn_images(bundle, held_out=70) | {"b": drawn_images(bundle, held_out=0)["b"]}
    judge = Judge(bundle, images, 1, lambda *step: seen.append(step))
    assert judge.losses(bundle) == {"a": Loss(70, 1.0, 1.0)}  # b has no held-out images
    assert judge.distance(bundle) == 0
    assert seen[:2] == [("a", 64, 70), ("a", 70, 70)]
    bundle.arrays["kernels/a"] = -bundle.kernels("a")
    assert judge.distance(bundle) > 0.1
    loss = judge.losses(bundle)["a"]
    assert loss.lost > 0
    assert loss.turned == round(70 * loss.lost)  # all were right before, so none is gained
    assert np.isfinite(judge.distance(bundle))


def test_images_that_are_gained_turn_as_those_that_are_lost_do() -> None:
    bundle = random_bundle(make_graph(convolution("a", [0], (8, 3))), 8)
    images = drawn_images(bundle, held_out=40)
    drawn = images["a"]
    before = Judge(bundle, {"a": drawn}, 1, lambda *_: None).logits["a"].argmax(1)
    bundle.arrays["kernels/a"] = -bundle.kernels("a")
    after = Judge(bundle, {"a": drawn}, 1, lambda *_: None).logits["a"].argmax(1)
    bundle.arrays["kernels/a"] = -bundle.kernels("a")
    differ = np.flatnonzero(before != after)
    labels = before.copy()
    labels[differ[::2]] = after[differ[::2]]  # every other image that changes is gained
    judge = Judge(bundle, {"a": Drawn(drawn.calibration, drawn.held_out, labels)}, 1, lambda *_: None)
    bundle.arrays["kernels/a"] = -bundle.kernels("a")
    loss = judge.losses(bundle)["a"]
    assert len(differ) > 10
    assert loss.turned == len(differ)
    assert abs(loss.lost * 40) <= 1 + 1e-9
    assert not loss.is_steady
