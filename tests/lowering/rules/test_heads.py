"""The heads of a view are found by the channels and pixels that it shows."""

import pytest
import torch
from torch import Tensor

from prunus.lowering.rules.heads import Heads, find_heads
from prunus.lowering.views import View

SHAPE = (24, 2, 4)  # channels of q, k and v, two heads of four channels each, and eight pixels
SPLIT = torch.arange(24 * 8).reshape(3, 2, 4, 8).mT  # q k v, heads, pixels, channels of a head
MIXED = torch.arange(24 * 8).reshape(2, 3, 4, 8).mT  # heads, q k v, pixels, channels of a head
WINDOWS = torch.tensor([[0, 1, 4, 5], [2, 3, 6, 7]])  # of two by two pixels

FOUND: dict[str, tuple[Tensor, tuple[int, int, int]]] = {
    "heads that follow each other": (SPLIT[1][None], (8, 4, 1)),
    "heads with something between them": (MIXED[:, 2][None], (8, 12, 1)),
    "one head": (SPLIT[2][None, :1], (16, 4, 1)),
    "one head for many": (SPLIT[0][None, :1].expand(1, 5, 8, 4), (0, 0, 1)),
    "heads without another axis": (SPLIT[0], (0, 4, 1)),
    "windows, then heads": (SPLIT[0][:, WINDOWS].movedim(1, 0), (0, 4, 2)),
}


@pytest.mark.parametrize("name", FOUND)
def test_heads_have_a_first_channel_a_step_and_windows(name: str) -> None:
    positions, (first, step, windows) = FOUND[name]
    heads = find_heads(View(1, positions, 0.5), SHAPE)
    expected = torch.arange(8)[None] if windows == 1 else WINDOWS
    assert heads is not None
    assert (heads.value, heads.first, heads.step, heads.factor) == (1, first, step, 0.5)
    assert torch.equal(heads.pixels, expected)
    assert heads.are_whole(SHAPE) == (windows == 1)


NOT_FOUND: dict[str, Tensor] = {
    "heads, then windows": SPLIT[0][:, WINDOWS],
    "channels and pixels that are swapped": SPLIT[0].mT[None],
    "heads in the other order": SPLIT[0].flip(0)[None],
    "channels in the other order": SPLIT[0].flip(2)[None],
    "another channel at each pixel": torch.stack([SPLIT[0].roll(1, 2)[:, :4], SPLIT[0][:, 4:]], 1).flatten(1, 2)[None],
    "heads at unequal distances": SPLIT.flatten(0, 1)[[0, 1, 3]][None],
}


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_is_no_head_is_not_found(name: str) -> None:
    assert find_heads(View(1, NOT_FOUND[name]), SHAPE) is None


def test_pixels_are_whole_only_in_their_order() -> None:
    assert not Heads(1, 0, 4, torch.arange(7)[None], 1.0).are_whole(SHAPE)
    assert not Heads(1, 0, 4, torch.arange(8).flip(0)[None], 1.0).are_whole(SHAPE)
