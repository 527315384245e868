"""What 8 bits may lose is limited for each domain and for all, and not only by luck."""

import pytest

from prunus.bundle.eight_bits.bounds import Loss, is_within, loses_no_more, mean_is_kept, over_bounds


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


@pytest.mark.parametrize(
    ("images", "turned", "expected"),
    [(512, 25, True), (512, 26, False), (20, 2, True), (20, 3, False), (100, 5, True), (100, 6, False)],
)
def test_many_images_that_turn_are_a_loss_even_if_as_many_are_gained(images: int, turned: int, expected: bool) -> None:
    """What 512 images lose has a standard error of 5 images, one point, if 25 of them turn: one in 20."""
    losses = {"a": Loss(images, 0.5, 0.5, turned), "b": Loss(images, 0.5, 0.6)}
    assert is_within(losses) is expected
    assert is_within({"a": Loss(images, 0.5, 0.5, turned=0), "b": losses["b"]})


def test_where_floats_turn_many_images_integers_turn_no_more() -> None:
    floats = {"a": Loss(100, 0.5, 0.4, turned=10)}
    assert loses_no_more({"a": Loss(100, 0.5, 0.4, turned=10)}, floats)
    assert not loses_no_more({"a": Loss(100, 0.5, 0.45, turned=11)}, floats)
    few = {"a": Loss(100, 0.5, 0.48, turned=2)}
    assert loses_no_more({"a": Loss(100, 0.5, 0.48, turned=5)}, few)  # 5 in 100 are allowed
    assert not loses_no_more({"a": Loss(100, 0.5, 0.48, turned=6)}, few)


def test_one_domain_that_loses_more_is_enough_to_lose_more() -> None:
    losses = {"a": Loss(20, 0.5, 0.4), "b": Loss(20, 0.5, 0.5)}
    assert loses_no_more(losses, losses)
    assert loses_no_more(losses | {"b": Loss(20, 0.5, 0.6)}, losses)
    assert not loses_no_more(losses | {"a": Loss(20, 0.5, 0.35), "b": Loss(20, 0.5, 0.9)}, losses)


def test_the_domains_that_break_a_bound_of_their_own_are_named() -> None:
    losses = {
        "kept": Loss(1000, 0.5, 0.49),
        "lost": Loss(1000, 0.5, 0.48),
        "turned": Loss(1000, 0.5, 0.5, 51),
        "one image": Loss(20, 0.5, 0.45, 1),
    }
    assert over_bounds(losses) == ["lost", "turned"]
    assert not mean_is_kept(losses)
    assert not is_within({"a": Loss(1000, 0.5, 0.49)})  # no domain is to blame alone
    assert over_bounds({"a": Loss(1000, 0.5, 0.49)}) == []
