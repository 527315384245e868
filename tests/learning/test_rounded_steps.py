"""Steps that round to 8 bits: what they learn, what they save, and what they leave alone."""

import pytest
import torch
from torch import Tensor

from prunus.learning.learner import Batch, Learner, network_state
from prunus.masks.network import MultiDomainNet
from prunus.masks.rounding import Rounding
from tests.makers.tiny_training import tiny_net, tiny_recipe

TRAINING = {"epochs": 10, "lr": 0.05, "switch_lr": 1e-4}


def _learner(quantize: str | None = "int8", net: MultiDomainNet | None = None) -> Learner:
    training = TRAINING | ({"quantize": quantize} if quantize else {})
    return Learner(net or tiny_net("exact"), tiny_recipe(preset="auto", method="exact", budget=1.0, training=training))


def _batch(domain: int = 0, seed: int = 0) -> Batch:
    """Return images whose class is the sign of their second colour; the first one is faint noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(32) % 2
    images = torch.randn(32, 3, 9, 9, generator=generator)
    images[:, 0] *= 0.002
    images[:, 1] += labels[:, None, None] - 0.5
    return Batch(domain, images, labels)


def _sensitive_net() -> MultiDomainNet:
    """Return a network whose kernels over the faint colour are so large that 8 bits leave nothing of the others."""
    net = tiny_net("exact")
    with torch.no_grad():
        weight = net.adapters[0].tensors(0, {})["0.weight"]
        weight[:, 0] *= 500
    assert net.switches is not None
    with torch.no_grad():
        net.switches.scores_DM.fill_(1e-3)
    return net


@torch.no_grad()
def _rounded_loss(net: MultiDomainNet) -> float:
    """Return the loss of a network whose kernels and activations are rounded."""
    before = net.rounding
    net.rounding = Rounding(net.network, net.switches, len(net.domains))
    net.rounding.is_on = True
    batch = _batch(seed=99)
    loss = torch.nn.functional.cross_entropy(net.train()(batch.images, "a"), batch.labels)
    net.rounding = before
    return float(loss)


@pytest.mark.parametrize("is_rounding", [True, False])
def test_the_rounded_loss_falls_only_if_training_rounds(is_rounding: bool) -> None:
    learner = _learner("int8" if is_rounding else None, _sensitive_net())
    learner.move_to(9.0)
    assert learner.is_rounding == is_rounding
    before = _rounded_loss(learner.net)
    for step in range(60):
        learner.step([_batch(seed=step)])
    after = _rounded_loss(learner.net)
    if is_rounding:
        assert after < 0.5 * before
    else:
        assert after > 0.8 * before


def test_steps_before_the_last_fifth_are_those_of_a_run_that_never_rounds() -> None:
    rounding, plain = _learner(), _learner(None)
    for learner in (rounding, plain):
        learner.move_to(7.9)
        learner.step([_batch()])
    ours, theirs = rounding.tensors(), plain.tensors()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    assert set(ours) - set(theirs) == {"rounding/ranges_DL2"}
    rounding.move_to(8.0)
    assert rounding.is_rounding


def test_what_a_network_has_learned_does_not_name_the_rounding() -> None:
    assert network_state(_learner().net).keys() == network_state(tiny_net("exact")).keys()


def _state(learner: Learner) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learner.tensors().items()}


def test_a_learner_that_continues_from_saved_state_takes_the_same_steps() -> None:
    first = _learner()
    first.move_to(9.0)
    for step in range(3):
        first.step([_batch(step % 2, step)])
    saved = _state(first)
    second = _learner()
    second.restore(saved)
    second.move_to(9.0)
    for learner in (first, second):
        for step in range(3, 6):
            learner.step([_batch(step % 2, step)])
    ours, theirs = _state(first), _state(second)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert bool(ours["rounding/ranges_DL2"].any())
    assert not torch.equal(ours["rounding/ranges_DL2"], saved["rounding/ranges_DL2"])
