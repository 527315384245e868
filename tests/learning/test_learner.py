"""One step of the method, against an independent one written with autograd."""

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from prunus.errors import TrainingError
from prunus.learning.learner import Batch, Learner, copy_state, network_state
from prunus.learning.rates import rate_factor
from prunus.masks.binarize import binarize
from tests.makers.tiny_training import tiny_net, tiny_recipe


def _batch(domain: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return Batch(domain, torch.randn(4, 3, 9, 9, generator=generator), torch.tensor([0, 1, 1, 0]))


def _sharing_violation(name: str, bits: list[Tensor], budget: float) -> Tensor:
    common, total = (bits[0] * bits[1]).sum(), (bits[0] + bits[1] - bits[0] * bits[1]).sum()
    size = len(bits[0])
    return {
        "union": total / size - budget,
        "intersection": 1 - common / (size * budget),
        "jaccard": 1 - common / total,
    }[name]


@pytest.mark.parametrize("weight", [0.5, "learned"])
@pytest.mark.parametrize("name", ["union", "intersection", "jaccard"])
def test_steps_equal_autograd_through_the_whole_loss_with_the_papers_formulas(name: str, weight: float | str) -> None:
    training = {"switch_lr": 0.001, "lr": 0.1, "momentum": 0, "dual_rate": 40.0}
    recipe = tiny_recipe(budget=0.45, sharing={"loss": name, "weight": weight}, training=training)
    ours, theirs = tiny_net(), tiny_net()
    learner = Learner(ours, recipe)
    assert theirs.switches is not None
    scores = theirs.switches.scores_DM
    adam = torch.optim.Adam([scores], lr=0.001)
    sgd = torch.optim.SGD([p for p in theirs.parameters() if p.requires_grad and p is not scores], lr=0.1)
    budget_multiplier, sharing_multiplier = 0.0, 0.0
    for step in range(4):
        learner.step([_batch(1, step)])
        bits = [binarize(row) for row in scores]
        excess, unshared = bits[1].mean() - 0.45, _sharing_violation(name, bits, 0.45)
        # were it not violated, torch's Adam would move the other domain by its momentum, and ours rightly not
        assert float(unshared.detach()) > 0
        budget_multiplier = budget_multiplier + 40.0 * float(excess.detach()) if float(excess.detach()) > 0 else 0.0
        sharing_multiplier += 40.0 * float(unshared.detach())
        factor = sharing_multiplier if weight == "learned" else 0.5
        batch = _batch(1, step)
        loss = F.cross_entropy(theirs(batch.images, "b"), batch.labels) + (budget_multiplier * excess).clamp(min=0)
        sgd.zero_grad()
        adam.zero_grad()
        (loss + (factor * unshared).clamp(min=0)).backward()  # type: ignore[no-untyped-call]
        assert scores.grad is not None
        assert ours.switches is not None
        assert ours.switches.scores_DM.grad is not None
        torch.testing.assert_close(ours.switches.scores_DM.grad, scores.grad, rtol=1e-3, atol=1e-5)
        adam.step()
        sgd.step()
    for found, expected in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("method", "precision", "expected"),
    [("union", "float32", False), ("union", "bfloat16", True), ("exact", "float32", True), ("exact", "bfloat16", True)],
)
def test_on_a_cpu_the_fast_memory_format_is_used_with_bfloat16_and_by_our_own_method(
    method: str, precision: str, expected: bool
) -> None:
    net = tiny_net(method)
    Learner(net, tiny_recipe(method=method, training={"precision": precision}))
    weights = [parameter for parameter in net.parameters() if parameter.dim() == 4 and min(parameter.shape) > 1]
    assert weights
    assert {weight.is_contiguous(memory_format=torch.channels_last) for weight in weights} == {expected}


def test_a_mixed_batch_weighs_every_image_the_same() -> None:
    recipe = tiny_recipe(method="feature", training={"momentum": 0, "lr": 1.0})
    net = tiny_net("feature")
    before = [head.weight.detach().clone() for head in net.heads]  # type: ignore[operator]
    small = Batch(1, _batch(1).images[:2], _batch(1).labels[:2])
    Learner(net, recipe).step([_batch(0), small])
    reference = tiny_net("feature")
    loss = 4 * F.cross_entropy(reference(_batch(0).images, "a"), _batch(0).labels)
    loss = loss + 2 * F.cross_entropy(reference(small.images, "b"), small.labels)
    (loss / 6).backward()  # type: ignore[no-untyped-call]
    for head, other, old in zip(net.heads, reference.heads, before, strict=True):
        torch.testing.assert_close(head.weight, old - other.weight.grad)  # type: ignore[operator]


@pytest.mark.parametrize(("epoch", "expected"), [(0, 1.0), (4, 1.0), (5, 0.1), (7, 0.1), (8, 0.01)])
def test_learning_rates_drop_at_shares_of_the_epochs(epoch: int, expected: float) -> None:
    recipe = tiny_recipe(training={"epochs": 10, "lr": 1.0, "lr_drops": [0.5, 0.8]})
    learner = Learner(tiny_net(), recipe)
    learner.step([_batch(0)], rate_factor(recipe.training, epoch))
    assert learner.sgd.param_groups[0]["lr"] == pytest.approx(expected)


@pytest.mark.parametrize(("epoch", "drop"), [(0, 1.0), (5, 0.1), (8, 0.01)])
def test_the_learning_rate_of_the_switches_drops_too(epoch: int, drop: float) -> None:
    training = {"epochs": 10, "switch_lr": 0.002, "lr_drops": [0.5, 0.8]}
    net = tiny_net()
    assert net.switches is not None
    before = net.switches.scores_DM.detach().clone()
    recipe = tiny_recipe(training=training)
    Learner(net, recipe).step([_batch(0)], rate_factor(recipe.training, epoch))
    # whatever the gradient, the first step of Adam is as long as its learning rate
    moved = (net.switches.scores_DM.detach() - before).abs().max()
    assert float(moved) == pytest.approx(0.002 * drop, rel=1e-3)


def test_a_networks_state_holds_what_was_learned_and_not_the_backbone() -> None:
    net = tiny_net()
    state = network_state(net)
    assert {"net/heads.0.weight", "net/adapter_list.0.scores_DM"} <= state.keys()
    assert not any("network." in name for name in state)
    other = tiny_net()
    with torch.no_grad():
        other.heads[1].weight.zero_()  # type: ignore[operator]
    copy_state(state, network_state(other))
    images = _batch(1).images
    assert torch.equal(net(images, "b"), other(images, "b"))


@pytest.mark.parametrize("saved", [None, torch.zeros(7)])
def test_state_that_is_missing_or_of_another_shape_is_refused_by_name(saved: Tensor | None) -> None:
    tensors: dict[str, Tensor] = dict(network_state(tiny_net()))
    del tensors["net/heads.0.bias"]
    if saved is not None:
        tensors["net/heads.0.bias"] = saved
    with pytest.raises(TrainingError, match=r"no 'net/heads.0.bias' of shape \(2,\)"):
        copy_state(tensors, network_state(tiny_net()))


def test_state_taken_out_and_put_back_goes_on_bit_for_bit() -> None:
    straight, recipe = Learner(tiny_net(), tiny_recipe()), tiny_recipe()
    for step in range(6):
        straight.step([_batch(step % 2, step)])
    first = Learner(tiny_net(), recipe)
    for step in range(3):
        first.step([_batch(step % 2, step)])
    second = Learner(tiny_net(), recipe)
    second.restore({name: tensor.clone() for name, tensor in first.tensors().items()})
    for step in range(3, 6):
        second.step([_batch(step % 2, step)])
    expected, found = straight.tensors(), second.tensors()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_accumulated_gradients_are_those_of_the_whole_batch_where_norms_do_not_mix_images() -> None:
    nets = [tiny_net("feature") for _ in range(2)]  # its norms keep their statistics
    for net, accumulate in zip(nets, (1, 3), strict=True):
        learner = Learner(net, tiny_recipe(method="feature", training={"accumulate": accumulate, "lr": 0.5}))
        learner.step([_batch(0), _batch(1)])
        assert learner.tally_D3[:, 2].tolist() == [len(_batch(0).labels), len(_batch(1).labels)]
    for whole, parts in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(whole, parts)


def test_weight_decay_pulls_matrices_and_kernels_and_leaves_biases_and_norms_alone() -> None:
    net = tiny_net("finetune")
    learner = Learner(net, tiny_recipe(method="finetune", training={"weight_decay": 0.1, "weight_lr": 0.2}))
    settings = {
        id(parameter): (group["base_lr"], group["weight_decay"])
        for group in learner.sgd.param_groups
        for parameter in group["params"]
    }
    head = net.heads[0]
    assert settings[id(head.weight)] == (1e-3, 0.1)
    assert settings[id(head.bias)] == (1e-3, 0.0)
    inside = {name: settings[id(p)] for name, p in net.named_parameters() if "adapter_list" in name}
    assert {value for name, value in inside.items() if "0/weight" in name} == {(0.2, 0.1)}  # a convolution
    assert {value for name, value in inside.items() if "1/weight" in name} == {(1e-3, 0.0)}  # a norm


def test_smoothed_labels_and_class_weights_are_torchs() -> None:
    net = tiny_net("feature")
    learner = Learner(net, tiny_recipe(method="feature", training={"label_smoothing": 0.2, "lr": 1.0, "momentum": 0.0}))
    reference = copy.deepcopy(net)
    batch = _batch(0)
    weights = torch.tensor([0.5, 2.0])
    before = copy.deepcopy(net.heads[0])
    learner.step([replace(batch, class_weights=weights)])
    logits = reference(batch.images, "a")
    targets = torch.nn.functional.one_hot(batch.labels, 2) * 0.8 + 0.1
    loss = -(targets * weights * logits.log_softmax(1)).sum() / len(batch.labels)
    loss.backward()
    moved = [old - new for old, new in zip(before.parameters(), net.heads[0].parameters(), strict=True)]
    torch.testing.assert_close(moved, [parameter.grad for parameter in reference.heads[0].parameters()])
