"""An own transform draws the same for the same image and step, whatever it draws from."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from prunus.data.own.transforms import passing_transform
from prunus.data.policies import augment, make_policy
from prunus.errors import RecipeError, TrainingError

IMAGES = torch.randint(0, 255, (3, 3, 10, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _noisy(draw: Callable[[], float]) -> Callable[[Tensor], Tensor]:
    return lambda image: (image.float() * draw()).to(torch.uint8)


@pytest.mark.parametrize(
    "draw",
    [random.random, np.random.rand, lambda: float(torch.rand(()))],
    ids=["python", "numpy", "torch"],
)
def test_the_same_seeds_draw_the_same_and_others_do_not(draw: Callable[[], float]) -> None:
    with passing_transform(_noisy(draw)):
        policy = make_policy(["python"], 10, mirror=False)  # the whole image, so only the transform differs
    random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index]
    once, again, other = (augment(IMAGES, policy, seeds) for seeds in ([1, 2, 3], [1, 2, 3], [4, 5, 6]))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert torch.equal(augment(IMAGES[1:2], policy, [2])[0], once[1])  # whatever its batch
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_it_comes_after_the_crop_and_may_change_its_image_in_place() -> None:
    shapes: list[tuple[int, ...]] = []

    def blacken(image: Tensor) -> Tensor:
        shapes.append(tuple(image.shape))
        return image.zero_()

    images = IMAGES.clone()
    with passing_transform(blacken):
        assert augment(images, make_policy(["python", "color_jitter"], 8, mirror=True), [1, 2, 3]).sum() == 0
        assert set(shapes) == {(3, 8, 8)}
        assert augment(images, make_policy(["python"], 10, mirror=False), [1, 2, 3]).sum() == 0
    assert torch.equal(images, IMAGES)


@pytest.mark.parametrize(
    ("transform", "what"),
    [
        (lambda image: image.float() / 255, r"torch.float32 \(3, 8, 8\)"),
        (lambda image: image[:, :4], r"torch.uint8 \(3, 4, 8\)"),
        (lambda image: image.numpy(), "ndarray"),
    ],
)
def test_other_results_are_refused(transform: Callable[[Tensor], Tensor], what: str) -> None:
    with passing_transform(transform):
        policy = make_policy(["python"], 8, mirror=False)
    with pytest.raises(TrainingError, match=f"transform returned {what}; expected a tensor like the image it gets"):
        augment(IMAGES, policy, [1, 2, 3])


def test_a_transform_that_is_not_passed_is_asked_for() -> None:
    with pytest.raises(TrainingError, match="no transform was passed; in Python pass transform=FUNCTION"):
        make_policy(["python"], 8, mirror=False)
    wrong: Any = "flip"
    with (
        pytest.raises(RecipeError, match="transform must be a function of an image, got str"),
        passing_transform(wrong),
    ):
        pass
