"""Steps that run normally on a CPU, and as CUDA graphs on a GPU."""

import numpy as np
import pytest
import torch

from prunus.data.loading import ImageSet
from prunus.learning.captured import StepRunner
from prunus.learning.feed import DomainData, StepJob, drawing, make_feeds
from prunus.learning.learner import Learner
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_net, tiny_recipe

ROUNDED: dict[bool, dict[str, object]] = {False: {}, True: {"quantize": "int8", "epochs": 2}}


def _data() -> list[DomainData]:
    rng = np.random.default_rng(0)
    return [
        DomainData(
            name, PREPROCESS, True, ImageSet(rng.integers(0, 256, (8, 3, 9, 9), np.uint8), np.arange(8) % 2), None
        )
        for name in CLASSES
    ]


def _train(device: str, graphs: bool, steps: int = 7, rounded: bool = False) -> tuple[Learner, StepRunner]:
    """Take some steps; if `rounded`, the second half of them to 8 bits."""
    training = {"cuda_graphs": graphs, "precision": "float32", "switch_lr": 0.01} | ROUNDED[rounded]
    learner = Learner(tiny_net().to(device), tiny_recipe(training=training))
    feeds = make_feeds(_data(), torch.device(device), learner.recipe)
    runner = StepRunner(learner, feeds)
    draw = drawing(feeds)
    for step in range(steps):
        part = (step % 2, np.arange(step % 3, 6))  # three batch sizes
        learner.move_to(learner.recipe.training.num_epochs * step / steps)
        runner.run([(part[0], len(part[1]))], draw(StepJob(0, step, (part,))), 1 / (1 + step))
    mixed = ((0, np.arange(3)), (1, np.arange(3, 6)))
    runner.run([(0, 3), (1, 3)], draw(StepJob(0, 99, mixed)), 0.5)
    return learner, runner


def test_a_cpu_captures_nothing_and_learns_what_update_learns() -> None:
    learner, runner = _train("cpu", graphs=True)
    assert not runner.captures
    reference = Learner(tiny_net(), learner.recipe)
    feeds = make_feeds(_data(), torch.device("cpu"), learner.recipe)
    draw = drawing(feeds)
    for step in range(7):
        (inputs,) = draw(StepJob(0, step, ((step % 2, np.arange(step % 3, 6)),)))
        reference.step([feeds[step % 2].batch(inputs)], 1 / (1 + step))
    both = draw(StepJob(0, 99, ((0, np.arange(3)), (1, np.arange(3, 6)))))
    reference.step([feed.batch(inputs) for feed, inputs in zip(feeds, both, strict=True)], 0.5)
    for name, tensor in reference.tensors().items():
        assert torch.equal(tensor, learner.tensors()[name]), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("rounded", [False, True])
def test_replayed_steps_learn_what_normal_steps_learn(rounded: bool) -> None:
    captured, runner = _train("cuda", graphs=True, steps=40, rounded=rounded)
    normal, _ = _train("cuda", graphs=False, steps=40, rounded=rounded)
    assert runner.captures
    assert captured.is_rounding == rounded
    for name, tensor in normal.tensors().items():
        torch.testing.assert_close(captured.tensors()[name], tensor, rtol=1e-4, atol=1e-5)
