"""Run one blank image through a network to learn its shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from prunus.errors import BackboneError


@dataclass(frozen=True)
class Probe:
    """How many features come out, and how many output pixels each convolution computes for one image."""

    num_features: int
    positions: dict[str, int]


@torch.no_grad()
def probe_network(network: nn.Module, size: int) -> Probe:
    """Record the shapes of one forward pass; a convolution that is used twice counts twice."""
    positions: Counter[str] = Counter()

    def record(name: str, output: Tensor) -> None:
        positions[name] += output.shape[-2] * output.shape[-1]

    hooks = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: record(name, output))
        for name, module in network.named_modules()
        if isinstance(module, nn.Conv2d)
    ]
    was_training = network.training
    try:
        features = network.eval()(torch.zeros(1, 3, size, size))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise BackboneError(f"the network does not take images of {size} x {size} pixels: {reason}") from None
    finally:
        for hook in hooks:
            hook.remove()
        network.train(was_training)
    if not isinstance(features, Tensor) or features.ndim != 2:
        raise BackboneError("the network does not give one feature vector per image; choose a classification network")
    return Probe(int(features.shape[1]), dict(positions))
