"""Classify with the frozen backbone alone: a linear classifier per domain on its features, fitted in seconds.

A trained network should be more accurate than this, which needs no training and no masks. The classifiers are kept
with a run, so that other images can be measured in the same way, and in the user's cache, so that other runs on the
same images need not fit them again.

Legend: N = images, F = features, K = classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from prunus.arrays import Bytes
from prunus.errors import DamagedFileError, StorageError
from prunus.files import write_atomically
from prunus.images import Preprocess
from prunus.learning.feed import DomainData
from prunus.learning.optimizers.uncompiled import LBFGS
from prunus.learning.scoring import in_parts, make_classifier, views
from prunus.masks.network import MultiDomainNet
from prunus.probabilities import Classifier
from prunus.sealed import read_header, seal, sealable

MOST_IMAGES = 5000  # of a domain that a classifier is fitted to; more would hardly change it
PENALTY = 4.0  # of squared weights, divided by the number of images
MOST_ITERATIONS = 200
SETTINGS = (MOST_IMAGES, PENALTY, MOST_ITERATIONS)  # with others, the same images have another classifier
KEPT = "kept"  # the name of the one classifier in a file of the cache


@dataclass(frozen=True)
class LinearClassifier:
    """Weights and biases of a linear classifier on unscaled features."""

    weight_KF: Tensor  # noqa: N815  # shape suffix
    bias_K: Tensor  # noqa: N815

    def to(self, device: torch.device) -> LinearClassifier:
        """Return the same classifier on a device, where a captured step can use it."""
        return LinearClassifier(self.weight_KF.to(device), self.bias_K.to(device))

    def logits(self, features_NF: Tensor) -> Tensor:
        """Compute the logits of features."""
        return F.linear(features_NF, self.weight_KF.to(features_NF.device), self.bias_K.to(features_NF.device))


def fit_linear(features_NF: Tensor, labels_N: Tensor, num_classes: int) -> LinearClassifier:
    """Fit multinomial logistic regression with an L2 penalty to standardized features."""
    mean_F = features_NF.mean(0)
    std_F = features_NF.std(0, correction=0)
    std_F = torch.where(std_F > 1e-6 * std_F.max(), std_F, 1.0)  # a constant feature tells nothing
    scaled_NF = (features_NF - mean_F) / std_F
    weight_KF = scaled_NF.new_zeros(num_classes, scaled_NF.shape[1]).requires_grad_()
    bias_K = scaled_NF.new_zeros(num_classes).requires_grad_()
    penalty = PENALTY / len(labels_N)
    optimizer = LBFGS([weight_KF, bias_K], max_iter=MOST_ITERATIONS, history_size=10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(F.linear(scaled_NF, weight_KF, bias_K), labels_N)
        value = value + penalty / 2 * weight_KF.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)
    unscaled_KF = weight_KF.detach() / std_F
    return LinearClassifier(unscaled_KF, bias_K.detach() - unscaled_KF @ mean_F)


def fit_frozen_features(
    net: MultiDomainNet, data: Sequence[DomainData], known: Mapping[str, Path] = MappingProxyType({})
) -> dict[str, LinearClassifier]:
    """Fit a classifier per domain to the backbone's features of centre crops of training images.

    Args:
        known: domain -> the file that keeps its classifier for other runs with the same backbone and images.
    """
    return {domain.name: _kept(known.get(domain.name), partial(_fit, net, domain)) for domain in data}


def _kept(file: Path | None, fit: Callable[[], LinearClassifier]) -> LinearClassifier:
    """Read a classifier that another run fitted, or fit it and keep it."""
    if file is None:
        return fit()
    with suppress(DamagedFileError):  # it is fitted and written again
        if found := read_classifiers(file):
            return found[KEPT]
    linear = fit()
    with suppress(StorageError):  # a full or read-only cache is none
        write_classifiers(file, {KEPT: linear})
    return linear


def _fit(net: MultiDomainNet, domain: DomainData) -> LinearClassifier:
    count = min(len(domain.train), MOST_IMAGES)
    chosen = np.linspace(0, len(domain.train) - 1, count).round().astype(np.int64)  # of all classes
    features_NF = _features(net, domain.train.images[chosen], domain.preprocess)
    labels_N = torch.from_numpy(domain.train.labels[chosen]).to(net.device)
    return fit_linear(features_NF, labels_N, len(net.classes[domain.name]))


def frozen_accuracies(
    net: MultiDomainNet, data: Sequence[DomainData], classifiers: Mapping[str, LinearClassifier]
) -> dict[str, float]:
    """Return the accuracy of the classifiers on the validation images of every domain that has some."""
    accuracies = {}
    for domain in data:
        if domain.validation is not None:
            features_NF = _features(net, domain.validation.images, domain.preprocess)
            answers_N = classifiers[domain.name].logits(features_NF).argmax(1).cpu().numpy()
            accuracies[domain.name] = float((answers_N == domain.validation.labels).mean())
    return accuracies


@torch.no_grad()
def _features(net: MultiDomainNet, stored: Bytes, preprocess: Preprocess) -> Tensor:
    """Compute the features of centre crops: (N, F)."""
    was_training = net.training
    net.eval()
    features = [net.network(view) for part in in_parts(stored) for view in views(part, preprocess, 1, net.device)]
    net.train(was_training)
    return torch.cat(features).float()


def frozen_classifiers(net: MultiDomainNet, path: Path) -> dict[str, Classifier]:
    """Read the classifiers of a run, with the backbone before them; there are none in runs of earlier versions."""
    return {
        name: make_classifier(partial(_classify, net, linear), net.device)
        for name, linear in read_classifiers(path).items()
    }


def _classify(net: MultiDomainNet, linear: LinearClassifier, images: Tensor) -> Tensor:
    return linear.logits(net.network(images))


def write_classifiers(path: Path, classifiers: Mapping[str, LinearClassifier]) -> None:
    """Keep the classifiers of all domains in one file."""
    tensors = {}
    for domain, linear in classifiers.items():
        tensors[f"{domain}/weight"] = linear.weight_KF.cpu().contiguous()
        tensors[f"{domain}/bias"] = linear.bias_K.cpu().contiguous()
    write_atomically(path, seal(save(tensors, sealable({}))))


def read_classifiers(path: Path) -> dict[str, LinearClassifier]:
    """Read what `write_classifiers` wrote; a missing file has none."""
    if not path.exists():
        return {}
    try:
        content = path.read_bytes()
        read_header(content)
        tensors = load(content)
        domains = sorted({name.rpartition("/")[0] for name in tensors})
        return {name: LinearClassifier(tensors[f"{name}/weight"], tensors[f"{name}/bias"]) for name in domains}
    except (SafetensorError, OSError, KeyError, ValueError):
        raise DamagedFileError(f"{path} holds no readable classifiers; remove it, or restore it") from None
