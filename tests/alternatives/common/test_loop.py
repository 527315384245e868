"""The plain loop learns, with the loss and the rates of our own training."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from prunus.alternatives.common.joint import JointNetwork
from prunus.alternatives.common.loop import fit_network, loss_of, rate_groups
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.feed import DomainData
from prunus.learning.learner import Batch
from prunus.run_folder import EpochReport
from prunus.training.observers import Observer
from tests.makers.own_networks import SIZE, leaf_net, leaf_recipe, pictures

PREPROCESS = Preprocess(size=SIZE, resize=SIZE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
CPU = torch.device("cpu")
TRAINING = leaf_recipe(training={"epochs": 3, "batch_size": 8, "lr": 0.05, "weight_lr": 0.1}).training


def _data(name: str, seed: int) -> DomainData:
    images, labels = pictures(32, seed)
    stored = np.stack(images).transpose(0, 3, 1, 2)
    files = tuple(f"{index}.png" for index in range(len(labels)))
    return DomainData(name, PREPROCESS, False, ImageSet(stored, np.array(labels), files), None)


class Watching(Observer):
    def __init__(self) -> None:
        self.events: list[object] = []

    def started(self, step: int, total_steps: int) -> None:
        self.events.append(total_steps)

    def epoch_ended(self, report: EpochReport) -> None:
        self.events.append(report)

    def ended(self) -> None:
        self.events.append("end")


@pytest.mark.parametrize("names", [("one",), ("one", "two")])
def test_a_network_learns_all_its_domains(names: tuple[str, ...]) -> None:
    recipe = leaf_recipe(training={"epochs": 3, "batch_size": 8, "lr": 0.05})
    network = JointNetwork(leaf_net(), 12, dict.fromkeys(names, 2), 0)
    watching = Watching()
    fit_network(network, [_data(name, seed) for seed, name in enumerate(names)], recipe, watching, CPU)
    total, *reports, end = watching.events
    assert (total, end, len(reports)) == (12 * len(names), "end", 3)
    last = reports[-1]
    assert isinstance(last, EpochReport)
    assert list(last.domains) == list(names)
    assert all(domain.train_accuracy > 0.9 for domain in last.domains.values())
    assert not network.training


def test_the_same_seed_gives_the_same_network() -> None:
    networks = [JointNetwork(leaf_net(), 12, {"one": 2}, 0) for _ in range(2)]
    for network in networks:
        fit_network(network, [_data("one", 0)], leaf_recipe(), Observer(), CPU)
    first, second = (network.state_dict() for network in networks)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_loss_is_the_mean_over_the_images_of_all_domains() -> None:
    network = JointNetwork(leaf_net(), 12, {"one": 2, "two": 3}, 0).eval()
    images = torch.randn(5, 3, SIZE, SIZE)
    batches = [
        Batch(0, images[:3], torch.tensor([0, 1, 1])),
        Batch(1, images[3:], torch.tensor([2, 0]), torch.tensor([1.0, 2.0, 3.0])),
    ]
    loss, logits = loss_of(network, batches, TRAINING, CPU)
    with torch.no_grad():
        outputs = [network(images[:3])[0], network(images[3:])[1]]
        parts = [
            F.cross_entropy(output, batch.labels, batch.class_weights, label_smoothing=0.1, reduction="sum")
            for output, batch in zip(outputs, batches, strict=True)
        ]
    assert loss.item() == pytest.approx(float(sum(parts)) / 5, rel=1e-5)
    assert [tuple(part.shape) for part in logits] == [(3, 2), (2, 3)]


def test_kernels_classifiers_and_norms_have_the_rates_of_fine_tuning() -> None:
    network = JointNetwork(leaf_net(), 12, {"one": 2}, 0)
    groups = {(group["base_lr"], group["weight_decay"]): group["params"] for group in rate_groups(network, TRAINING)}
    sizes = {key: sum(p.numel() for p in found) for key, found in groups.items()}  # type: ignore[attr-defined]
    kernels, norms = 8 * 27 + 12 * 72, 2 * 8 + 2 * 12
    assert sizes == {(0.1, 5e-4): kernels, (0.05, 0.0): norms + 2, (0.05, 5e-4): 24}
