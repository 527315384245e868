from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from prunus.data.augment import color_statistics, draw_crops, normalize
from prunus.data.augment import crop as cut_windows
from prunus.images import Preprocess


def stored_images(count: int, side: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (count, 3, side, side), generator=generator, dtype=torch.uint8)


def slow_crops(images: Tensor, size: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Cut and mirror one image after the other, drawing the same random numbers."""
    corners = torch.randint(images.shape[-1] - size + 1, (len(images), 2), generator=generator)
    draws = torch.rand(len(images), generator=generator)
    windows = []
    for image, (top, left), draw in zip(images, corners.tolist(), draws.tolist(), strict=True):
        window = image[:, top : top + size, left : left + size]
        windows.append(window.flip(-1) if mirror and draw < 0.5 else window)
    return torch.stack(windows)


def positions(crops: Tensor, side: int) -> list[tuple[int, int, bool]]:
    """Read (top, left, mirrored) off crops of an image whose bytes are the positions themselves."""
    found = []
    for crop in crops[:, 0].int():
        corner, neighbour = int(crop[0, 0]), int(crop[0, 1])
        mirrored = neighbour < corner
        left = (int(crop[0, -1]) if mirrored else corner) % side
        found.append((corner // side, left, mirrored))
    return found


def _random_crops(images: Tensor, size: int, mirror: bool, seed: int) -> Tensor:
    drawn = draw_crops(len(images), images.shape[-1] - size, mirror, torch.Generator().manual_seed(seed))
    return cut_windows(images, drawn, size)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize(("side", "size"), [(9, 8), (8, 8), (12, 5)])
def test_crops_of_a_batch_equal_those_of_a_loop_over_its_images(mirror: bool, side: int, size: int) -> None:
    images = stored_images(16, side)
    found = _random_crops(images, size, mirror, 7)
    assert found.dtype == torch.uint8
    assert torch.equal(found, slow_crops(images, size, mirror, torch.Generator().manual_seed(7)))


def test_every_window_and_both_mirrors_are_drawn() -> None:
    image = torch.arange(36, dtype=torch.uint8).reshape(1, 1, 6, 6).expand(500, 3, 6, 6)
    found = set(positions(_random_crops(image, 4, True, 0), 6))
    assert found == {(top, left, mirrored) for top in range(3) for left in range(3) for mirrored in (False, True)}


def test_what_may_not_be_mirrored_never_is() -> None:
    image = torch.arange(36, dtype=torch.uint8).reshape(1, 1, 6, 6).expand(500, 3, 6, 6)
    found = positions(_random_crops(image, 4, False, 0), 6)
    assert not any(mirrored for _, _, mirrored in found)


def test_the_images_themselves_are_left_alone() -> None:
    images = stored_images(4, 9)
    before = images.clone()
    _random_crops(images, 8, True, 0).zero_()
    assert torch.equal(images, before)


def test_normalizing_tensors_equals_normalizing_arrays() -> None:
    preprocess = Preprocess(size=16, resize=16, mean=(0.48, 0.45, 0.4), std=(0.28, 0.27, 0.26))
    levels = np.ascontiguousarray(np.broadcast_to(np.arange(256, dtype=np.uint8).reshape(16, 16), (2, 3, 16, 16)))
    found = normalize(torch.from_numpy(levels), *color_statistics(preprocess, torch.device("cpu")))
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), preprocess.normalize(levels), rtol=0, atol=1e-6)
