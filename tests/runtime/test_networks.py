"""Whole networks of the zoo, pruned and packed, compute the masked networks' logits in every engine."""

from collections.abc import Callable
from functools import partial

import pytest

from prunus.runtime import _native
from prunus.runtime.engine import Engine
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.masked_networks import MODES, ExpectedLogits, masked_network, packed, zoo_backbone

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
SIZES = {
    "wrn14_2": 32,
    "wrn28_4": 32,
    "timm/resnet50": 40,
    "timm/mobilenetv2_100": 33,
    "timm/mobilenetv3_large_100": 64,
    "timm/efficientnet_lite0": 47,
    "timm/regnety_002": 32,
    "timm/densenet121": 32,
    "timm/convnext_atto": 64,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_every_engine_gives_the_masked_networks_logits(name: str) -> None:
    backbone = zoo_backbone(name, SIZES[name])
    net = masked_network(backbone, CLASSES, MODES[:-1])
    bundle = packed(net, backbone, CLASSES)
    makers: list[Callable[[], Engine]] = [
        partial(NumpyEngine, bundle),
        *(partial(NativeEngine, bundle, 1, kernels) for kernels in _native.available_kernels()),
        partial(NativeEngine, bundle, 2),
    ]
    expected = ExpectedLogits(net, exact=True)
    for make in makers:  # one engine at a time: each has a copy of the weights
        expected.assert_same(make().logits)
