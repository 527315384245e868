"""A taught network learns the answers and features of its teacher, as counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from prunus.learning.frozen_features import LinearClassifier
from prunus.learning.learner import Batch, Learner
from prunus.learning.teaching import Lesson, Teacher, taught_loss
from tests.makers.tiny_training import tiny_net, tiny_recipe


def test_the_loss_is_the_sum_of_its_three_parts() -> None:
    rng = np.random.default_rng(0)
    mine, theirs = rng.normal(size=(2, 4, 3))
    features, taught = rng.normal(size=(2, 4, 5))
    expected = 0.3 * 7.0
    for own, other in zip(mine, theirs, strict=True):
        p = np.exp(other / 2) / np.exp(other / 2).sum()
        q = np.exp(own / 2) / np.exp(own / 2).sum()
        expected += 0.7 * 4 * sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    expected += 4 * ((features - taught) ** 2).mean() / (taught**2).mean()
    lesson = Lesson(torch.from_numpy(theirs).float(), torch.from_numpy(taught).float())
    loss = taught_loss(torch.tensor(7.0), torch.from_numpy(mine).float(), torch.from_numpy(features).float(), lesson)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_a_network_that_answers_like_its_teacher_has_only_the_labels_to_learn() -> None:
    logits, features = torch.randn(4, 3), torch.randn(4, 5)
    lesson = Lesson(logits, features)
    assert float(taught_loss(torch.tensor(7.0), logits, features, lesson)) == pytest.approx(0.3 * 7.0, abs=1e-5)
    assert float(taught_loss(torch.tensor(7.0), logits, None, lesson)) == pytest.approx(0.3 * 7.0, abs=1e-5)


def test_a_teacher_brings_the_answers_closer_and_stays_as_it_is() -> None:
    torch.manual_seed(1)
    teacher = tiny_net("finetune").eval()
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    images = torch.randn(8, 3, 9, 9)
    labels = torch.zeros(8, dtype=torch.long)
    gaps = []
    for taught in (False, True):
        torch.manual_seed(2)
        net = tiny_net("exact")
        recipe = tiny_recipe(method="exact", training={"lr": 0.05, "epochs": 1})
        learner = Learner(net, recipe, teacher=Teacher(teacher) if taught else None)
        for _ in range(60):
            learner.step([Batch(1, images, labels)])
        net.train()
        features, _ = net.features_and_logits(images, "b")
        aim = Teacher(teacher).lesson(images, "b").features
        assert features is not None
        assert aim is not None
        gaps.append(float((features.detach() - aim).square().mean() / aim.square().mean()))
    assert gaps[1] < 0.5 * gaps[0]
    assert all(torch.equal(before[name], tensor) for name, tensor in teacher.state_dict().items())


def test_where_the_backbone_teaches_the_lesson_is_that_of_its_own_features() -> None:
    torch.manual_seed(3)
    net = tiny_net("finetune")
    with torch.no_grad():
        for parameter in net.adapter_list.parameters():
            parameter.add_(torch.randn_like(parameter))  # what training has changed
    weight, bias = torch.randn(3, 5), torch.randn(3)
    images = torch.randn(4, 3, 9, 9)
    teacher = Teacher(net, {"b": LinearClassifier(weight, bias).logits})
    features = net.network(images)
    lesson = teacher.lesson(images, "b")
    assert lesson.features is not None
    torch.testing.assert_close(lesson.features, features)
    torch.testing.assert_close(lesson.logits, features @ weight.T + bias)
    other = teacher.lesson(images, "a")
    assert other.features is not None
    assert not torch.allclose(other.features, features)
    torch.testing.assert_close(other.logits, net(images, "a"))
