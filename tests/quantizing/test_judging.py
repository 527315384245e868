"""What 8 bits lose is measured on held-out images, and limited for each domain and for all."""

import numpy as np
import pytest

from prunus.quantizing.judging import Judge, Loss, is_within, loses_no_more
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ([0.0, 0.0], True),
        ([0.01, -0.01], True),
        ([0.0101, -0.5], False),
        ([0.003, 0.003], True),
        ([0.004, 0.003], False),
        ([], True),
    ],
)
def test_a_mean_of_0_3_points_and_one_point_in_any_domain_may_be_lost(lost: list[float], expected: bool) -> None:
    losses = {str(index): Loss(1000, 0.5, 0.5 - loss) for index, loss in enumerate(lost)}
    assert is_within(losses) is expected


@pytest.mark.parametrize(("first", "second", "expected"), [(1, 0, True), (1, 1, False), (2, -1, False), (2, -5, False)])
def test_one_lost_image_in_all_is_no_loss_where_there_are_few(first: int, second: int, expected: bool) -> None:
    losses = {"a": Loss(20, 0.5, 0.5 - first / 20), "b": Loss(20, 0.5, 0.5 - second / 20)}
    assert is_within(losses) is expected


def test_one_domain_that_loses_more_is_enough_to_lose_more() -> None:
    losses = {"a": Loss(20, 0.5, 0.4), "b": Loss(20, 0.5, 0.5)}
    assert loses_no_more(losses, losses)
    assert loses_no_more(losses | {"b": Loss(20, 0.5, 0.6)}, losses)
    assert not loses_no_more(losses | {"a": Loss(20, 0.5, 0.35), "b": Loss(20, 0.5, 0.9)}, losses)


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
    assert judge.losses(bundle)["a"].lost > 0
    assert np.isfinite(judge.distance(bundle))
