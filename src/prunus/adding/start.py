"""Begin a domain as the domain of a model file that is nearest to it.

The nearest one is that whose features separate the classes of the new images best, with a linear classifier. The new
domain takes over its masks, norms that compute the same on the new images, and that classifier.

Legend: N = images, F = features, C = channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunus.arrays import Bytes, Integers
from prunus.images import Preprocess
from prunus.learning.feed import DomainData
from prunus.learning.frozen_features import LinearClassifier, fit_linear
from prunus.learning.scoring import in_parts, views
from prunus.masks.binarize import START_SCORE
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.network import MultiDomainNet
from prunus.torch_graph.file_network import FileNetwork, conv_name

MOST_IMAGES = 2000  # of a new domain that are looked at
MOST_CANDIDATES = 24  # domains of the file that are compared on all of these images
FEWEST_IMAGES = 200  # that choose the candidates among more domains
HELD_OUT = 4  # one of so many images compares the candidates


@dataclass(frozen=True)
class Sample:
    """Some training images of a new domain, evenly chosen."""

    images: Bytes
    labels: Tensor
    num_classes: int
    preprocess: Preprocess

    def part(self, count: int) -> Sample:
        """Return at most so many of the images, evenly chosen again."""
        chosen = _evenly(len(self.images), count)
        labels = self.labels[torch.from_numpy(chosen).to(self.labels.device)]
        return replace(self, images=self.images[chosen], labels=labels)


@dataclass(frozen=True)
class Nearest:
    """The domain of a file that a new one starts from, and the accuracy of a classifier on its features."""

    domain: str
    accuracy: float
    classifier: LinearClassifier


def start_from_nearest(net: MultiDomainNet, data: Sequence[DomainData]) -> dict[str, Nearest]:
    """Let every domain of a network begin as the nearest domain of its model file; return that one by domain."""
    network = net.network
    assert isinstance(network, FileNetwork)
    found = {}
    was_training = net.training
    net.eval()
    for index, domain in enumerate(data):
        sample = _sample(domain, net.device, len(net.classes[domain.name]))
        nearest = find_nearest(network, candidates_of(network, sample, domain.name), sample)
        _take_over(net, index, nearest, sample.images, domain.preprocess)
        found[domain.name] = nearest
    net.train(was_training)
    return found


def candidates_of(network: FileNetwork, sample: Sample, new: str) -> list[str]:
    """Return the domains of a file to compare, and always the one that is trained again.

    Of many domains, those are left that separate the classes of fewer images best: comparing them takes about as long
    then as comparing the candidates.
    """
    names = network.bundle.domains
    if len(names) <= MOST_CANDIDATES:
        return list(names)
    few = sample.part(max(FEWEST_IMAGES, len(sample.images) * MOST_CANDIDATES // len(names)))
    accuracies = {name: _separate(network, name, few)[0] for name in names}
    best = sorted(names, key=lambda name: -accuracies[name])[:MOST_CANDIDATES]
    return [name for name in names if name in best or name == new]


def find_nearest(network: FileNetwork, candidates: Sequence[str], sample: Sample) -> Nearest:
    """Return the candidate whose features separate the classes of some images best."""
    best: tuple[float, str, Tensor] | None = None
    for name in candidates:
        accuracy, features_NF = _separate(network, name, sample)
        if best is None or accuracy > best[0]:
            best = accuracy, name, features_NF
    assert best is not None
    return Nearest(best[1], best[0], fit_linear(best[2], sample.labels, sample.num_classes))


def _separate(network: FileNetwork, domain: str, sample: Sample) -> tuple[float, Tensor]:
    """Return how well a domain's features separate held-out images, and the features of all images."""
    labels_N = sample.labels
    held_out_N = torch.arange(len(labels_N), device=labels_N.device) % HELD_OUT == 0
    tensors = _on(labels_N.device, network.tensors_of(domain))
    features_NF = _features(network, tensors, sample.images, sample.preprocess)
    linear = fit_linear(features_NF[~held_out_N], labels_N[~held_out_N], sample.num_classes)
    answers_N = linear.logits(features_NF[held_out_N]).argmax(1)
    return float((answers_N == labels_N[held_out_N]).float().mean()), features_NF


@torch.no_grad()
def _take_over(net: MultiDomainNet, index: int, nearest: Nearest, images: Bytes, preprocess: Preprocess) -> None:
    network = net.network
    assert isinstance(network, FileNetwork)
    assert net.switches is not None
    tensors = _on(net.device, network.tensors_of(nearest.domain))
    with _statistics(network) as found:
        _features(network, tensors, images, preprocess)
    norms = next(adapter for adapter in net.adapters if isinstance(adapter, DomainNorms))
    own = norms.copies.of(index)
    for name, tensor in own.items():
        tensor.copy_(tensors[name])
    for key, (mean_C, var_C) in found.items():
        _normalize(own, f"norms.{key}", mean_C, var_C, float(network.norms[key].eps))  # type: ignore[arg-type]
    bundle = network.bundle
    used = {conv_name(layer): bundle.mask(nearest.domain, layer) for layer in bundle.manifest.convs}
    on_M = net.switches.layout.touching({name: torch.from_numpy(mask_OI) for name, mask_OI in used.items()})
    net.switches.scores_DM[index] = torch.where(on_M.to(net.device), START_SCORE, -START_SCORE)
    head = net.heads[index]
    assert isinstance(head, nn.Linear)
    head.weight.copy_(nearest.classifier.weight_KF)
    head.bias.copy_(nearest.classifier.bias_K)


def _normalize(own: Mapping[str, Tensor], norm: str, mean_C: Tensor, var_C: Tensor, eps: float) -> None:
    """Let a batch norm compute what it does now, with these statistics."""
    scale_C = own[f"{norm}.weight"].clone()
    own[f"{norm}.weight"].copy_(scale_C * (var_C + eps).sqrt())
    own[f"{norm}.bias"].add_(scale_C * mean_C)
    own[f"{norm}.running_mean"].copy_(mean_C)
    own[f"{norm}.running_var"].copy_(var_C)


@contextmanager
def _statistics(network: FileNetwork) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Measure the mean and the variance of what every batch norm reads; they are known when the context ends."""
    sums: dict[str, Tensor] = {}  # count, sum and sum of squares

    def record(key: str, x: Tensor) -> None:
        wide = x.double()
        count = torch.full((x.shape[1],), x.numel() / x.shape[1], dtype=wide.dtype, device=x.device)
        seen = torch.stack([count, wide.sum((0, 2, 3)), wide.square().sum((0, 2, 3))])
        sums[key] = sums[key] + seen if key in sums else seen

    found: dict[str, tuple[Tensor, Tensor]] = {}
    with ExitStack() as stack:
        for key, norm in network.norms.items():
            if isinstance(norm, nn.BatchNorm2d):
                hook = norm.register_forward_pre_hook(lambda _norm, inputs, key=key: record(key, inputs[0]))
                stack.enter_context(hook)
        yield found
    for key, (count, total, squares) in sums.items():
        mean = total / count
        found[key] = mean.float(), (squares / count - mean.square()).clamp(min=0).float()


@torch.no_grad()
def _features(network: FileNetwork, tensors: Mapping[str, Tensor], images: Bytes, preprocess: Preprocess) -> Tensor:
    """Compute the features of centre crops with a domain's tensors: (N, F)."""
    device = next(network.parameters()).device
    parts = [view for part in in_parts(images) for view in views(part, preprocess, 1, device)]
    return torch.cat([functional_call(network, dict(tensors), (view,)) for view in parts]).float()


def _sample(domain: DomainData, device: torch.device, num_classes: int) -> Sample:
    chosen = _evenly(len(domain.train), MOST_IMAGES)
    labels_N = torch.from_numpy(domain.train.labels[chosen]).to(device)
    return Sample(domain.train.images[chosen], labels_N, num_classes, domain.preprocess)


def _evenly(total: int, count: int) -> Integers:
    return np.linspace(0, total - 1, min(total, count)).round().astype(np.int64)


def _on(device: torch.device, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}
