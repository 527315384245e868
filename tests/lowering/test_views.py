"""Views know where numbers are, and how to copy them."""

import torch

from prunus.lowering.views import View, in_order, pixels_of, positions_of, rearrangement


def test_a_view_without_positions_shows_all_in_order() -> None:
    assert View(1).shows_all(6)
    assert torch.equal(View(1).over((2, 3)), torch.arange(6).reshape(2, 3))
    assert View(1, torch.tensor([[2, 0], [1, 3]])).shows_all(4)
    assert not View(1, torch.tensor([0, 0, 1, 2])).shows_all(4)
    assert not View(1, torch.tensor([0, 1])).shows_all(4)


def test_the_pixels_beside_an_axis_of_channels_are_found() -> None:
    pixels = torch.tensor([[2, 0, 1]])
    positions = positions_of(pixels, 2, 4)
    assert positions.shape == (1, 3, 4)
    found = pixels_of(positions, 2, (4, 1, 3))
    assert found is not None
    assert torch.equal(found, pixels)
    assert pixels_of(positions, 1, (4, 1, 3)) is None
    assert pixels_of(positions[:, :2], 2, (4, 1, 3)) is None


def test_positions_in_order_need_no_copy() -> None:
    assert in_order(torch.arange(6).reshape(2, 3)) is None
    assert in_order(torch.tensor([1, 0])) is not None


def test_strides_are_found_where_there_are_some() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        sizes = torch.randint(1, 4, (3,), generator=generator).tolist()
        grid = torch.arange(64).reshape(4, 4, 4).permute(torch.randperm(3, generator=generator).tolist())
        part = grid[: sizes[0], : sizes[1], : sizes[2]].flatten()
        operation = rearrangement(0, part, (len(part), 1, 1))
        assert operation is not None
        axes = [stride * torch.arange(size) for size, stride in zip(operation.sizes, operation.strides, strict=True)]
        sums = torch.stack(torch.meshgrid(*axes, indexing="ij")).sum(0).flatten() + operation.offset
        assert torch.equal(sums, part)
    assert rearrangement(0, torch.tensor([0, 2, 3, 9]), (4, 1, 1)) is None
    assert rearrangement(0, torch.tensor([3, 2, 1, 0]), (4, 1, 1)) is None
