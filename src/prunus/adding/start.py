"""Begin a domain as the domain of a model file that is nearest to it.

The nearest one is that whose features separate the classes of the new images best, with a linear classifier. The new
domain takes over its masks, norms that compute the same on the new images, and that classifier.

Legend: N = images, F = features, C = channels.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunus.arrays import Bytes
from prunus.images import Preprocess
from prunus.learning.feed import DomainData
from prunus.learning.frozen_features import LinearClassifier, fit_linear
from prunus.learning.scoring import in_parts, views
from prunus.masks.binarize import START_SCORE
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.network import MultiDomainNet
from prunus.torch_graph.file_network import FileNetwork, conv_name

MOST_IMAGES = 2000  # of a new domain that are looked at
MOST_CANDIDATES = 24  # domains of the file
HELD_OUT = 4  # one of so many images compares the candidates


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
        images, labels = _sample(domain, net.device)
        candidates = candidates_of(network.bundle.domains, domain.name)
        nearest = find_nearest(network, candidates, images, labels, len(net.classes[domain.name]), domain.preprocess)
        _take_over(net, index, nearest, images, domain.preprocess)
        found[domain.name] = nearest
    net.train(was_training)
    return found


def candidates_of(names: Sequence[str], new: str) -> list[str]:
    """Return some domains of a file, evenly chosen, and always the one that is trained again."""
    evenly = np.unique(np.linspace(0, len(names) - 1, min(len(names), MOST_CANDIDATES)).round().astype(int))
    return [name for index, name in enumerate(names) if index in evenly or name == new]


def find_nearest(
    network: FileNetwork,
    candidates: Sequence[str],
    images: Bytes,
    labels_N: Tensor,
    num_classes: int,
    preprocess: Preprocess,
) -> Nearest:
    """Return the candidate whose features separate the classes of some images best."""
    held_out_N = torch.arange(len(labels_N), device=labels_N.device) % HELD_OUT == 0
    best: tuple[float, str, Tensor] | None = None
    for name in candidates:
        features_NF = _features(network, _on(labels_N.device, network.tensors_of(name)), images, preprocess)
        linear = fit_linear(features_NF[~held_out_N], labels_N[~held_out_N], num_classes)
        answers_N = linear.logits(features_NF[held_out_N]).argmax(1)
        accuracy = float((answers_N == labels_N[held_out_N]).float().mean())
        if best is None or accuracy > best[0]:
            best = accuracy, name, features_NF
    assert best is not None
    return Nearest(best[1], best[0], fit_linear(best[2], labels_N, num_classes))


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


def _sample(domain: DomainData, device: torch.device) -> tuple[Bytes, Tensor]:
    """Return some training images of all classes, and their labels."""
    count = min(len(domain.train), MOST_IMAGES)
    chosen = np.linspace(0, len(domain.train) - 1, count).round().astype(np.int64)
    return domain.train.images[chosen], torch.from_numpy(domain.train.labels[chosen]).to(device)


def _on(device: torch.device, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}
