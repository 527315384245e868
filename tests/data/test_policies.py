from __future__ import annotations

import sys
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from prunus.data.policies import POLICIES, Transform, augment, image_seeds, make_policy
from prunus.errors import MissingExtraError, UnknownNameError

SIDE, SIZE = 20, 16
ALL = tuple(POLICIES)


def stored_images(count: int, side: int = SIDE) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (count, 3, side, side), generator=generator, dtype=torch.uint8)


def seeds_of(count: int, step: int = 3) -> list[int]:
    return image_seeds(0, step, 1, np.arange(count))


def windows(image: Tensor, size: int) -> set[bytes]:
    """List every window of an image, and its mirror."""
    corners = range(image.shape[-1] - size + 1)
    cut = [image[:, top : top + size, left : left + size] for top in corners for left in corners]
    return {window.contiguous().numpy().tobytes() for crop in cut for window in (crop, crop.flip(-1))}


@pytest.mark.parametrize("names", [(), *((name,) for name in ALL), ALL])
def test_a_policy_keeps_bytes_and_size_and_an_image_does_not_depend_on_its_batch(names: tuple[str, ...]) -> None:
    images, seeds, policy = stored_images(12), seeds_of(12), make_policy(names, SIZE, mirror=True)
    whole = augment(images, policy, seeds)
    assert whole.dtype == torch.uint8
    assert whole.shape == (12, 3, SIZE, SIZE)
    for cut in (1, 5, 11):  # however a batch is split over processes
        parts = [augment(images[:cut], policy, seeds[:cut]), augment(images[cut:], policy, seeds[cut:])]
        assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(augment(images.flip(0), policy, seeds[::-1]), whole.flip(0))


@pytest.mark.parametrize("name", ALL)
def test_a_policy_changes_what_a_plain_crop_would_show(name: str) -> None:
    images = stored_images(16)
    found = augment(images, make_policy((name,), SIZE, mirror=True), seeds_of(16))
    shown = [image.numpy().tobytes() in windows(stored, SIZE) for image, stored in zip(found, images, strict=True)]
    assert sum(shown) <= 8  # RandAugment and TrivialAugment sometimes choose to do nothing


@pytest.mark.parametrize("mirror", [False, True])
def test_without_a_policy_every_window_comes_from_its_image(mirror: bool) -> None:
    image = stored_images(1)[0]
    found = augment(image.expand(400, -1, -1, -1), make_policy((), SIZE, mirror), seeds_of(400))
    drawn = {window.numpy().tobytes() for window in found}
    both_ways = {window.flip(-1).contiguous().numpy().tobytes() for window in found} & drawn
    assert drawn <= windows(image, SIZE)
    assert len(drawn) == (SIDE - SIZE + 1) ** 2 * (2 if mirror else 1)  # all of them
    assert bool(both_ways) == mirror


@pytest.mark.parametrize("name", ALL)
def test_equal_images_of_a_batch_are_augmented_differently(name: str) -> None:
    image = stored_images(1).expand(8, -1, -1, -1)
    found = augment(image, make_policy((name,), SIZE, mirror=False), seeds_of(8))
    assert len({window.numpy().tobytes() for window in found}) >= 6


def test_seeds_differ_in_every_number_they_depend_on() -> None:
    base = image_seeds(0, 3, 1, np.arange(50))
    others = [image_seeds(*numbers, np.arange(50)) for numbers in ((1, 3, 1), (0, 4, 1), (0, 3, 2))]
    assert len({*base, *(seed for seeds in others for seed in seeds)}) == 200
    assert image_seeds(0, 3, 1, np.array([7, 9])) == [base[7], base[9]]
    assert all(0 <= seed < 2**32 for seed in base)


def test_policies_apply_in_one_order_whatever_the_order_of_their_names() -> None:
    images, seeds = stored_images(4), seeds_of(4)
    found = [augment(images, make_policy(names, SIZE, True), seeds) for names in permutations(ALL)]
    assert all(torch.equal(other, found[0]) for other in found)


def test_the_global_generator_and_the_images_are_left_alone() -> None:
    images = stored_images(4)
    before, state, threads = images.clone(), torch.get_rng_state(), torch.get_num_threads()

    def fail(image: Tensor) -> Tensor:
        raise RuntimeError(str(torch.rand(1)))

    augment(images, make_policy(ALL, SIZE, True), seeds_of(4)).zero_()
    with pytest.raises(RuntimeError):
        augment(images, fail, seeds_of(4))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_drawn_from_the_generators_of_python_and_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    images, seeds, policy = stored_images(4), seeds_of(4), make_policy((name,), SIZE, True)
    found = augment(images, policy, seeds)

    def refuse(*_: object) -> float:
        raise AssertionError("another generator is used")

    for place in ("random.random", "random.uniform", "random.randint", "random.choice", "numpy.random.rand"):
        monkeypatch.setattr(place, refuse)
    assert torch.equal(augment(images, policy, seeds), found)


def test_arrays_and_mapped_files_do_as_well_as_tensors() -> None:
    images = stored_images(3)
    policy = make_policy(("color_jitter",), SIZE, True)
    read_only = images.numpy().copy()
    read_only.flags.writeable = False
    assert torch.equal(augment(read_only, policy, seeds_of(3)), augment(images, policy, seeds_of(3)))


def test_pixels_do_not_depend_on_the_number_of_threads() -> None:
    images = stored_images(2, side=300)
    policy = make_policy(("color_jitter",), 280, False)
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2):
            torch.set_num_threads(count)
            found.append(augment(images, policy, seeds_of(2)))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_a_part_of_a_batch_may_be_empty() -> None:
    assert augment(stored_images(0), make_policy(ALL, SIZE, True), []).shape == (0, 3, SIZE, SIZE)


def test_every_image_needs_its_seed() -> None:
    identity: Transform = make_policy((), SIZE, False)
    with pytest.raises(ValueError, match="zip"):
        augment(stored_images(2), identity, [1])


def test_an_unknown_policy_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'rand_augment'"):
        make_policy(("rand_augmen",), SIZE, True)


def test_without_torchvision_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.transforms.v2", None)
    with pytest.raises(MissingExtraError, match=r"an augmentation policy needs torchvision.*prunus\[train\]"):
        make_policy(("color_jitter",), SIZE, True)
