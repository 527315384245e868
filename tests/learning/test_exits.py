"""The choice of exits on held-out images."""

import numpy as np
import torch

from prunus.backbone.probe import probe_network
from prunus.backbone.wrn import WideResNet
from prunus.backbone.zoo import Backbone
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.exits import NOTHING_HELD_OUT, choose_exits
from prunus.learning.feed import DomainData
from prunus.learning.learner import Batch, Learner
from prunus.learning.scoring import count_correct
from prunus.methods.early_exits import Exits
from prunus.methods.table import adapt
from prunus.recipes import parse_recipe

SIZE = 8
PREPROCESS = Preprocess(size=SIZE, resize=SIZE, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
CLASSES = {"easy": ["dark", "bright"], "noise": ["x", "y"]}


def _learner(method: str = "early_exits") -> Learner:
    torch.manual_seed(0)
    network = WideResNet(blocks=1, stem=4, widths=(4, 6, 8))
    net = adapt(Backbone("tiny", network, PREPROCESS, probe_network(network, SIZE)), CLASSES, method)
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": list(CLASSES), "method": method}
    return Learner(net, parse_recipe(content | {"training": {"lr": 0.05, "epochs": 1}}))


def _images(domain: str, count: int, seed: int) -> ImageSet:
    """Images whose brightness tells their class, or nothing does."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    brightness = 60 + 120 * labels[:, None, None, None] if domain == "easy" else 120
    images = np.clip(random.normal(brightness, 40, (count, 3, SIZE, SIZE)), 0, 255)
    return ImageSet(images.astype(np.uint8), labels)


def _data(held_out: bool = True) -> list[DomainData]:
    return [
        DomainData(name, PREPROCESS, False, _images(name, 32, 0), _images(name, 40, 1) if held_out else None)
        for name in CLASSES
    ]


def _train(learner: Learner, data: list[DomainData]) -> None:
    for step in range(24):
        images = data[step % 2].train
        scaled = (torch.from_numpy(images.images).float() / 255 - 0.5) / 0.25
        learner.step([Batch(step % 2, scaled, torch.from_numpy(images.labels))])


def test_an_easy_domain_exits_early_after_training() -> None:
    learner, data = _learner(), _data()
    _train(learner, data)
    exits = learner.net.adapters[2]
    assert isinstance(exits, Exits)
    assert choose_exits(learner, data) is None
    assert learner.net.training
    assert exits.stop(0) == exits.layers[0]
    validation = data[0].validation
    assert validation is not None
    learner.net.eval()
    correct = int(count_correct(learner.net, "easy", validation, PREPROCESS))
    assert correct / 40 == float(exits.accuracy_DE[0, 0])  # what the chosen exit was measured with
    assert correct > 36


def test_without_held_out_images_nobody_exits_and_the_reader_is_told() -> None:
    learner = _learner()
    assert choose_exits(learner, _data(held_out=False)) == NOTHING_HELD_OUT
    assert [learner.net.adapters[2].stop(index) for index in (0, 1)] == [None, None]


def test_other_methods_have_nothing_to_choose() -> None:
    assert choose_exits(_learner("bn"), _data(held_out=False)) is None
