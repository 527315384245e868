"""The frozen network with a linear probe per domain, in one file of 8 bits."""

import numpy as np
import torch

from prunus.alternatives.alternative import Answering, Shipped, Task
from prunus.alternatives.common.exporting import write_onnx
from prunus.alternatives.common.joint import JointNetwork, count_macs
from prunus.learning.frozen_features import LinearClassifier, fit_frozen_features

FILE = "all_domains.onnx"


def make(task: Task) -> Shipped:
    """Fit a logistic regression per domain to the features of training images, and write all behind one network."""
    frozen = task.ours.net
    classifiers = fit_frozen_features(frozen, task.data)
    network = JointNetwork(frozen.network, task.ours.backbone.probe.num_features, task.classes, task.recipe.seed)
    fill_heads(network, [classifiers[domain] for domain in network.domains])
    return ship_together(task, network)


@torch.no_grad()
def fill_heads(network: JointNetwork, classifiers: list[LinearClassifier]) -> None:
    """Copy linear classifiers into the heads of a network."""
    for head, classifier in zip(network.heads, classifiers, strict=True):
        head.get_parameter("weight").copy_(classifier.weight_KF)
        head.get_parameter("bias").copy_(classifier.bias_K)


def ship_together(task: Task, network: JointNetwork) -> Shipped:
    """Write one network for all domains in 8 bits, with an output per domain."""
    calibration = np.concatenate([task.calibration[domain] for domain in network.domains])
    write_onnx(task.folder / FILE, network, task.size, calibration)
    macs = count_macs(network.features, task.size)
    return Shipped(
        recipe=task.recipe,
        counted=(FILE,),
        answering={domain: Answering(file=FILE, output=domain) for domain in network.domains},
        macs=dict.fromkeys(network.domains, macs),
    )
