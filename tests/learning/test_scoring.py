"""Answers of a network on its device, against the ones computed with numpy."""

from functools import partial

import numpy as np
import torch

from prunus.arrays import Floats
from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.scoring import count_correct, net_classifier
from prunus.parallel.processes import Processes
from prunus.probabilities import crop_probabilities
from tests.makers.tiny_training import tiny_net

PREPROCESS = Preprocess(size=9, resize=11, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
STORED = np.random.default_rng(0).integers(0, 256, (300, 3, 11, 11), np.uint8)


def _logits(domain: str, images: Floats) -> Floats:
    with torch.no_grad():
        logits: Floats = tiny_net().eval()(torch.from_numpy(images), domain).numpy()
        return logits


def test_probabilities_are_those_of_crops_cut_and_averaged_by_numpy() -> None:
    STORED.flags.writeable = False  # as images from the cache are
    for crops in (1, 5, 10):
        ours = net_classifier(tiny_net().eval(), "b")(STORED[:7], PREPROCESS, crops)
        expected = crop_probabilities(partial(_logits, "b"), STORED[:7], PREPROCESS, crops)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_correct_answers_are_counted_over_several_batches() -> None:
    labels = np.arange(300) % 3
    answers = crop_probabilities(partial(_logits, "b"), STORED, PREPROCESS, 1).argmax(1)
    count = count_correct(tiny_net().eval(), "b", ImageSet(STORED, labels), PREPROCESS)
    assert int(count) == int((answers == labels).sum())
    assert 0 < int(count) < 300


def test_the_counts_of_several_processes_add_up() -> None:
    images = ImageSet(STORED[:5], np.arange(5) % 3)
    net = tiny_net().eval()
    whole = int(count_correct(net, "b", images, PREPROCESS))
    for world in (2, 3, 7):  # of seven processes some have no image
        rows = [Processes(rank, world).rows(5) for rank in range(world)]
        assert sum(int(count_correct(net, "b", images, PREPROCESS, own)) for own in rows) == whole
