"""A network with a linear classifier for each of some domains, as a user would write it in plain torch."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import probe_network


class JointNetwork(nn.Module):
    """Features that all domains share, and a classifier per domain; a network of one domain has one classifier.

    Args:
        features: from images to one vector per image.
        classes: domain -> number of classes.
        seed: of the first values of the classifiers.
    """

    def __init__(self, features: nn.Module, num_features: int, classes: Mapping[str, int], seed: int) -> None:
        super().__init__()
        self.domains = tuple(classes)
        self.features = copy.deepcopy(features).requires_grad_(True)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.heads = nn.ModuleList(nn.Linear(num_features, count) for count in classes.values())

    @override
    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Return the logits of every domain."""
        features = self.features(images)
        return tuple(head(features) for head in self.heads)


def count_macs(network: nn.Module, size: int) -> int:
    """Count the multiply-accumulates of the convolutions of a network, for one image."""
    positions = probe_network(network, size).positions
    return sum(network.get_submodule(name).get_parameter("weight").numel() * count for name, count in positions.items())
