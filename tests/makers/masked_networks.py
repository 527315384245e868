"""Networks of the zoo with random masks and norms for several domains, and the model files that they become."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from prunus.arrays import Bools, Floats
from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.images import Preprocess
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt

Classes = Mapping[str, tuple[str, ...]]
Answer = Callable[[Floats, str], Floats]
TWO_DOMAINS: Classes = {"a": ("x", "y"), "b": ("x", "y", "z")}
MODES = ("dead channels", "sparse", "everything on", "dead in one domain", "unread inputs", "layer off")


@cache
def zoo_backbone(name: str, size: int) -> Backbone:
    """Load a network of the zoo; those of timm with random weights."""
    return load_backbone(BackboneChoice(name=name, weights="random" if "/" in name else "pretrained", size=size))


def masked_network(
    backbone: Backbone, classes: Classes, modes: Sequence[str], seed: int = 5, method: str = "union"
) -> MultiDomainNet:
    """Return a network whose convolutions have masks of the modes in turn, and whose domains have different norms."""
    net = adapt(backbone, classes, method)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in net.named_parameters():
            if not name.startswith("network.") and tensor.requires_grad:
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
        if net.switches is not None:
            views = net.switches.layout.views(net.switches.scores_DM.fill_(1.0)).values()
            for index, view in enumerate(views):
                switch_off(view, modes[index % len(modes)], generator)
        if "layer off" in modes:  # what remains hardly varies: scaling it up would amplify rounding errors
            for name, buffer in net.named_buffers():
                if not name.startswith("network.") and "running_mean" in name:
                    buffer.add_(torch.randn(buffer.shape, generator=generator) * 0.1)
        else:
            _calibrate(net, generator)
    return net.eval()


def _calibrate(net: MultiDomainNet, generator: torch.Generator) -> None:
    """Set every domain's norm statistics from some images: with others, deep networks ignore the image."""
    norms = [module for module in net.network.modules() if isinstance(module, _BatchNorm)]
    momenta = [norm.momentum for norm in norms]
    if not any(name.endswith("running_var") for name in net.tensors(net.domains[0])):
        return
    for norm in norms:
        norm.momentum = 1.0
    for domain in net.domains:
        net.train()(torch.randn(4, 3, net.image_size, net.image_size, generator=generator), domain)
        for name, tensor in net.tensors(domain).items():
            if name.endswith("running_var"):  # what hardly varies stays small, for the same reason
                tensor.clamp_(min=0.1 * float(tensor.mean())).mul_(1.2)
                tensor[tensor < 1e-4] = 1.0
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum


class ExpectedLogits:
    """The logits of a network as it is now, for two images in every domain.

    Args:
        exact: compare with the network in float64, and allow twice the error of torch in float32 if that is more,
            because sums in another order are rounded differently.
    """

    def __init__(self, net: MultiDomainNet, exact: bool = False) -> None:
        images = torch.randn(2, 3, net.image_size, net.image_size, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            self.rounded = {domain: net(images, domain).numpy() for domain in net.domains}
            self.expected = self.rounded
            if exact:
                precise = copy.deepcopy(net).double()
                self.expected = {domain: precise(images.double(), domain).numpy() for domain in net.domains}
        self.images = images.numpy()

    def assert_same(self, answer: Answer, sensitive: bool = True) -> None:
        """Compare logits in every domain, to 1e-5 of the largest logit.

        Args:
            sensitive: also require that the network's logits for two images differ by 1e-2 of the largest logit.
        """
        for domain, expected in self.expected.items():
            largest = float(np.abs(expected).max())
            assert np.isfinite(expected).all()
            if sensitive:
                assert np.abs(expected[0] - expected[1]).max() >= 1e-2 * largest, f"{domain}: blind to the image"
            allowed = max(1e-5, 2 * float(np.abs(self.rounded[domain] - expected).max()) / largest)
            away = float(np.abs(answer(self.images, domain) - expected).max()) / largest
            assert away <= allowed, f"{domain}: {away:.1e} of the largest logit, {allowed:.1e} are allowed"


def assert_same_logits(net: MultiDomainNet, answer: Answer, sensitive: bool = True, exact: bool = False) -> None:
    """Compare logits with those of a network once; ExpectedLogits compares several answers with it."""
    ExpectedLogits(net, exact).assert_same(answer, sensitive)


def draw_tiny(net: MultiDomainNet, mode: str, generator: torch.Generator) -> None:
    """Change the learned tensors of a small network at random, and switch off kernels of all its layers in one way."""
    assert net.switches is not None
    with torch.no_grad():
        for key, tensor in net.named_parameters():
            if tensor.requires_grad and "scores" not in key:
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.3)
        for view in net.switches.layout.views(net.switches.scores_DM.fill_(1.0)).values():
            switch_off(view, mode, generator)


def switch_off(scores_DOI: Tensor, mode: str, generator: torch.Generator) -> None:
    """Switch off some kernels of a layer, in one of the ways that matter to pruning."""

    def drawn(share: float, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator) < share

    domains, outputs, inputs = scores_DOI.shape[:3]
    off = {
        "everything on": lambda: torch.zeros(domains, outputs, inputs, dtype=torch.bool),
        "layer off": lambda: torch.ones(domains, outputs, inputs, dtype=torch.bool),
        "dead channels": lambda: drawn(0.4, 1, outputs, 1),
        "dead in one domain": lambda: drawn(0.4, 1, outputs, 1) & (torch.arange(domains) == 0)[:, None, None],
        "unread inputs": lambda: drawn(0.4 if inputs > 1 else 0, 1, 1, inputs),  # else a whole layer
        "sparse": lambda: drawn(0.8, domains, outputs, inputs),
        "half": lambda: drawn(0.5, domains, outputs, inputs),
    }[mode]()
    scores_DOI[off.expand(domains, outputs, inputs)] = -1


def packed(net: MultiDomainNet, backbone: Backbone, classes: Classes) -> Bundle:
    """Return the bundle of a network."""
    entries = {name: DomainEntry(classes=names, preprocess=backbone.preprocess) for name, names in classes.items()}
    return pack(net, backbone, entries, {})


def tiny_net(network: torch.nn.Module, size: int = 8) -> tuple[Backbone, MultiDomainNet]:
    """Put switches, norms and classifiers of two domains around a small network."""
    preprocess = Preprocess(size=size, resize=size, mean=(0, 0, 0), std=(1, 1, 1))
    backbone = Backbone("tiny", network, preprocess, probe_network(network, size))
    return backbone, adapt(backbone, TWO_DOMAINS, "union").eval()


def switch_masks(net: MultiDomainNet) -> dict[str, Bools]:
    """Return the masks that a network learned: layer -> (domain, output, input)."""
    assert net.switches is not None
    shapes = {conv.name: (conv.out_channels, conv.in_channels) for conv in net.switches.layout.convs}
    return {
        layer: mask[..., 0, 0].expand(-1, *shapes[layer]).numpy() for layer, mask in net.switches.layer_masks().items()
    }
