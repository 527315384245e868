"""The accuracies of an 8-bit file say on which images they were measured, and how certain they are."""

import pytest

from prunus.measure.eight_bits.held_out import HeldOut, accuracy_in_words, are_kept, doubts, what_breaks

ROW = HeldOut(images=512, floats=0.9492, int8=0.9453, turned=12, validation=0, chance=0.05)


def _row(**changes: object) -> HeldOut:
    return ROW.model_copy(update=changes)


@pytest.mark.parametrize(
    ("first", "second", "images"),
    [
        (0, 0, "1,024 training images that chose no coding"),
        (512, 512, "1,024 validation images"),
        (1, 0, "1,023 training images that chose no coding and 1 validation image"),
        (None, 0, "held-out images"),
    ],
)
def test_images_that_were_trained_on_are_told_from_validation_images(
    first: int | None, second: int | None, images: str
) -> None:
    rows = {"a": _row(validation=first), "b": _row(validation=second)}
    assert next(accuracy_in_words(rows)) == f"mean accuracy on {images}: 94.5 % (in floats 94.9 %)"


def test_images_that_are_right_in_only_one_of_the_two_are_counted() -> None:
    assert ROW.in_words() == "484 of 512 are right (in floats 486; 12 in only one of the two)"
    assert _row(turned=None).in_words() == "484 of 512 are right (in floats 486)"


def test_the_bounds_are_those_of_whole_images() -> None:
    assert are_kept({"a": ROW}) is False  # 2 of 512 are 0.39 points, in the mean over one domain
    assert what_breaks({"a": ROW}) == (
        "8 bits lose more accuracy than they may in the mean over all domains; a file of float16 loses less"
    )
    kept = _row(int8=0.9473)
    assert are_kept({"a": kept}) is True  # one image
    same = _row(int8=0.9492)
    assert are_kept({"a": _row(floats=0.3333, int8=0.3233, images=300, turned=3), "b": same, "c": same, "d": same})
    assert are_kept({"a": _row(int8=0.9473, turned=None)}) is None
    assert are_kept({}) is None


def test_the_domains_that_lose_too_much_are_named_with_their_images() -> None:
    rows = {"a": ROW, "lost": _row(int8=0.8008, turned=90), "turned": _row(turned=26)}
    assert are_kept(rows) is False
    assert what_breaks(rows) == (
        "8 bits lose more accuracy than they may in "
        "lost (410 of 512 are right (in floats 486; 90 in only one of the two)), "
        "turned (484 of 512 are right (in floats 486; 26 in only one of the two)); a file of float16 loses less"
    )
    many = what_breaks({f"d{number}": rows["lost"] for number in range(12)})
    assert "d9 (410" in many
    assert "d10" not in many
    assert ", 2 more; a file of float16 loses less" in many


def test_few_images_and_a_network_near_chance_are_named() -> None:
    assert doubts({"a": ROW, "b": _row(images=100)}) == []
    rows = {"few": _row(images=99), "near": _row(floats=0.14, chance=0.05), "far": _row(floats=0.15, chance=0.05)}
    assert doubts(rows) == [
        "fewer than 100 images measured what is lost in few (99)",
        "accuracies decide nothing where the network is close to chance in floats: "
        "near (14.0 % right, by chance 5.0 %)",
    ]
    assert not _row(floats=1.0, chance=1.0).is_near_chance  # a domain of one class
