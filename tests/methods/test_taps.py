"""TAPS: what the selected layers cost, how many are selected, and which scores the penalty moves."""

import math

import pytest
import torch
from torch import nn

from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.learning.learner import Batch, Learner
from prunus.methods.costs import network_costs
from prunus.methods.table import METHODS, adapt
from prunus.methods.taps import ChosenResiduals, Options
from prunus.recipes import parse_recipe
from tests.makers.method_costs import NINE, wrn28


def test_taps_costs_between_one_and_ten_networks() -> None:
    net = adapt(wrn28(), NINE, "taps")
    part = net.adapters[0]
    assert isinstance(part, ChosenResiduals)
    ratios = []
    for share in (1.0, 0.5, 0.0):
        with torch.no_grad():
            for scores in part.scores:
                scores.copy_((torch.arange(len(scores)) < share * len(scores)).float())
        ratios.append(network_costs(net, wrn28().probe).params_ratio(with_source=True))
    assert ratios[0] == pytest.approx(10, rel=1e-4)
    assert 1 < ratios[1] < 10
    assert ratios[2] == pytest.approx(1, rel=1e-4)


def test_taps_adapts_fewer_layers_the_larger_its_sparsity() -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    ratios = []
    for sparsity in (0.0, 1.3, 20.0):
        method = METHODS["taps"].options.model_validate({"sparsity": sparsity})
        net = adapt(backbone, {"a": ["x", "y"]}, "taps", options=method)
        content = {
            "preset": "paper",
            "backbone": "wrn14_2",
            "domains": ["a"],
            "method": {"name": "taps", "sparsity": sparsity},
        }
        learner = Learner(net, parse_recipe(content | {"training": {"lr": 0.01}}))
        generator = torch.Generator().manual_seed(0)
        for _ in range(12):
            labels = torch.arange(8) % 2
            images = torch.randn(8, 3, 32, 32, generator=generator) + labels[:, None, None, None]
            learner.step([Batch(0, images, labels)])
        ratios.append(network_costs(net, backbone.probe).params_ratio())
    assert math.isclose(ratios[0], 2, rel_tol=1e-4)
    assert ratios[0] > ratios[1] > ratios[2] >= 1


def test_the_penalty_lowers_scores_on_both_sides_of_the_threshold_towards_zero() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3), nn.Conv2d(4, 4, 3))
    part = ChosenResiduals(network, 1, Options(sparsity=3.0))
    with torch.no_grad():
        part.scores[0].copy_(torch.tensor([0.2, 0.05, -0.05]))
    penalty = part.loss(0, torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
    assert penalty.item() == pytest.approx(3.0 * 0.1)
    penalty.backward()  # type: ignore[no-untyped-call]
    assert part.scores[0].grad is not None
    assert part.scores[0].grad.tolist() == pytest.approx([1.0, 1.0, -1.0])


@pytest.mark.parametrize(
    ("warmup", "epochs", "position", "penalized"),
    [(2.0, 30, 1.99, 0), (2.0, 30, 2.0, 1), (2.0, 3, 1.49, 0), (2.0, 3, 1.5, 1), (0.0, 3, 0.0, 1)],
)
def test_the_penalty_waits_for_the_end_of_the_warm_up(
    warmup: float, epochs: int, position: float, penalized: int
) -> None:
    part = ChosenResiduals(nn.Sequential(nn.Conv2d(3, 4, 3)), 1, Options(warmup_epochs=warmup))
    part.move_to(position, epochs)
    loss = part.loss(0, torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
    assert loss.item() == pytest.approx(0.15 * penalized)


def test_scores_learn_at_a_rate_of_their_own() -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, {"a": ["x", "y"]}, "taps")
    part = net.adapters[0]
    assert isinstance(part, ChosenResiduals)
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["a"], "method": "taps"}
    learner = Learner(net, parse_recipe(content | {"training": {"lr": 0.05, "weight_lr": 0.02}}))
    learner.set_rates(0.5)
    rates = {id(p): group["lr"] for group in learner.sgd.param_groups for p in group["params"]}
    assert rates[id(part.scores[0])] == pytest.approx(0.005)
    assert rates[id(next(iter(part.residuals.parameters())))] == pytest.approx(0.01)
    assert rates[id(net.heads[0].bias)] == pytest.approx(0.025)
