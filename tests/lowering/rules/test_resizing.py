"""Padded images, and pixels that are weighted means of others, keep their numbers."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.config import BackboneChoice
from prunus.errors import BackboneError
from prunus.graph.cut import cut
from prunus.lowering.build import build_graph
from prunus.lowering.rules import resizing
from prunus.timing.dense import why_not_a_file
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import draw_tiny
from tests.makers.odd_networks import odd_net

Change = Callable[[Tensor], Tensor]
MEANS: dict[str, Change] = {
    "bilinear to more pixels": lambda x: F.interpolate(x, (9, 11), mode="bilinear"),
    "bilinear to fewer": lambda x: F.interpolate(x, scale_factor=0.7, mode="bilinear"),
    "bilinear by the corners": nn.Upsample((9, 9), mode="bilinear", align_corners=True),
    "area": lambda x: F.interpolate(x, (5, 3), mode="area"),
    "adaptive to unequal windows": nn.AdaptiveAvgPool2d((3, 5)),
    "adaptive to more pixels": lambda x: F.adaptive_avg_pool2d(x, 10),
}
PADS: dict[str, Change] = {
    "below and beside": lambda x: F.pad(x, (0, 3, 0, 2)),
    "on all sides": nn.ZeroPad2d((1, 2, 3, 4)),
    "above and left": nn.ConstantPad2d((2, 0, 1, 0), 0.0),
    "channels in the last axis": lambda x: F.pad(x.permute(0, 2, 3, 1), (0, 0, 0, 3, 1, 0)).permute(0, 3, 1, 2),
    "channels before and after": lambda x: F.pad(x, (0, 0, 0, 0, 1, 2)),
}


@pytest.mark.parametrize("name", [*MEANS, *PADS])
@pytest.mark.parametrize("mode", ["everything on", "dead channels"])
def test_resized_images_keep_their_numbers(name: str, mode: str) -> None:
    change = (MEANS | PADS)[name]
    _, net = odd_net(lambda m, x: change(m.act(m.a(x)) - 0.5).flatten(1))
    draw_tiny(net, mode, torch.Generator().manual_seed(3))
    network = build_graph(net)
    assert ("attention" in {operation.op for operation in network.graph}) == (name in MEANS)
    assert_same(net, network)
    assert_same(net, cut(network))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: F.pad(x, (1, 1), value=1.0),
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        lambda x: F.pad(x, (-1, 0)),
    ],
)
def test_other_pads_are_refused(change: Change) -> None:
    _, net = odd_net(lambda m, x: change(m.a(x)).flatten(1))
    with pytest.raises(BackboneError, match="the operation 'pad'"):
        build_graph(net)


def test_means_with_too_many_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resizing, "MOST_WEIGHTS", 64 * 100 - 1)
    _, net = odd_net(lambda m, x: F.adaptive_avg_pool2d(m.a(x), 10).flatten(1))
    with pytest.raises(BackboneError, match="adaptive_avg_pool2d"):
        build_graph(net)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("mobilevit_xxs", 224), ("swin_tiny_patch4_window7_224", 112)])
def test_large_images_of_networks_that_resize_become_a_file_too(name: str, size: int) -> None:
    assert why_not_a_file(BackboneChoice(name=f"timm/{name}", weights="random", size=size)) is None


@pytest.mark.parametrize("size", [50, 96])
def test_mobilevit_becomes_a_file_at_sizes_that_its_patches_do_not_divide(size: int) -> None:
    assert why_not_a_file(BackboneChoice(name="timm/mobilevit_xxs", weights="random", size=size)) is None
