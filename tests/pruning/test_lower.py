"""A network written as a graph of operations gives the masked network's logits, whatever the network and the masks."""

from functools import cache

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.errors import BackboneError
from prunus.graph.operations import Affine, Conv
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.pruning.pack import pack
from prunus.runtime.numpy_engine import NumpyEngine

CLASSES = {"a": ("x", "y"), "b": ("x", "y", "z")}
SIZES = {
    "wrn14_2": 32,
    "wrn28_4": 32,
    "timm/resnet18": 64,
    "timm/resnet50": 33,
    "timm/resnet50d": 52,  # windows that end behind the image
    "timm/resnext50_32x4d": 32,
    "timm/mobilenetv2_100": 32,
    "timm/mobilenetv3_large_100": 32,
    "timm/efficientnet_lite0": 32,
    "timm/efficientnet_b0": 32,
    "timm/tf_efficientnetv2_b0": 47,  # pads more behind than before
    "timm/regnety_002": 32,
    "timm/densenet121": 32,
    "timm/convnext_atto": 32,
}
MODES = ["everything on", "layer off", "dead channels", "dead in one domain", "unread inputs", "sparse"]


@cache
def _backbone(name: str) -> Backbone:
    weights = "random" if name.startswith("timm/") else "pretrained"
    return load_backbone(BackboneChoice(name=name, weights=weights, size=SIZES[name]))


def _net(backbone: Backbone, seed: int, modes: list[str]) -> MultiDomainNet:
    """A network whose convolutions each have one of several kinds of masks, and whose norms differ by domain."""
    net = adapt(backbone, CLASSES, "union")
    generator = torch.Generator().manual_seed(seed)
    assert net.switches is not None
    with torch.no_grad():
        for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
            if not name.startswith("network.") and ("running_mean" in name or tensor.requires_grad):
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
        scores = net.switches.scores_DM.fill_(1.0)
        for index, view in enumerate(net.switches.layout.views(scores).values()):
            _switch_off(view, modes[index % len(modes)], generator)
    return net.eval()


def _switch_off(scores_DOI: Tensor, mode: str, generator: torch.Generator) -> None:
    def drawn(share: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) < share

    if mode == "layer off":
        scores_DOI[:] = -1
    elif mode == "dead channels":
        scores_DOI[:, drawn(0.4, scores_DOI.shape[1])] = -1
    elif mode == "dead in one domain":
        scores_DOI[0, drawn(0.4, scores_DOI.shape[1])] = -1
    elif mode == "unread inputs":
        scores_DOI[:, :, drawn(0.4, scores_DOI.shape[2])] = -1
    elif mode == "sparse":
        scores_DOI[drawn(0.8, *scores_DOI.shape)] = -1


def _pack(net: MultiDomainNet, backbone: Backbone) -> Bundle:
    entries = {name: DomainEntry(classes=names, preprocess=backbone.preprocess) for name, names in CLASSES.items()}
    return pack(net, backbone, entries, {})


def _assert_same_logits(net: MultiDomainNet, bundle: Bundle) -> None:
    size = net.image_size
    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    engine = NumpyEngine(bundle)
    for domain in net.domains:
        with torch.no_grad():
            expected = net(images, domain).numpy()
        found = engine.logits(images.numpy(), domain)
        assert np.isfinite(expected).all()
        assert np.abs(found - expected).max() <= 1e-5 * max(1.0, float(np.abs(expected).max()))


@pytest.mark.parametrize("name", SIZES)
def test_every_network_becomes_a_graph_with_the_same_logits(name: str) -> None:
    net = _net(_backbone(name), 5, ["dead channels", "sparse", "everything on", "dead in one domain", "unread inputs"])
    _assert_same_logits(net, _pack(net, _backbone(name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=5))
def test_any_masks_become_a_graph_with_the_same_logits(name: str, seed: int, modes: list[str]) -> None:
    net = _net(_backbone(name), seed, modes)
    _assert_same_logits(net, _pack(net, _backbone(name)))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**31), modes=st.lists(st.sampled_from(MODES), min_size=1, max_size=13))
def test_any_mixture_of_masks_becomes_a_graph_with_the_same_logits(seed: int, modes: list[str]) -> None:
    net = _net(_backbone("wrn14_2"), seed, modes)
    _assert_same_logits(net, _pack(net, _backbone("wrn14_2")))
