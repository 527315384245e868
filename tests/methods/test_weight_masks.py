"""Masks over weights: their storage, and what their coefficients do."""

import pytest
import torch

from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.learning.learner import Batch, Learner
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet
from prunus.methods.table import adapt
from prunus.methods.weight_masks import AffineSwitches, WeightSwitches, affine
from prunus.recipes import parse_recipe
from tests.makers.method_costs import nine_domain_costs, wrn28


@pytest.mark.parametrize(("method", "coefficients"), [("weight_transform", 3), ("affine_masks", 4)])
def test_affine_masks_cost_slightly_more_than_a_bit_per_weight(method: str, coefficients: int) -> None:
    convs = convolutions(wrn28().network)
    weights = sum(conv.num_weights for conv in convs)
    expected = 1 + 9 * (weights + 32 * coefficients * len(convs)) / (32 * weights)
    assert nine_domain_costs(method).params_ratio(with_source=True) == pytest.approx(expected)


def test_the_first_coefficient_alone_leaves_the_weights_unchanged() -> None:
    weight = torch.randn(4, 3, 3, 3)
    mask = torch.rand_like(weight).round()
    for count in (3, 4):
        identity = torch.tensor([1.0] + [0.0] * (count - 1))
        torch.testing.assert_close(affine(weight, mask, identity), weight)


def test_the_fourth_coefficient_scales_the_masked_weights() -> None:
    weight = torch.tensor([2.0, 3.0])
    mask = torch.tensor([1.0, 0.0])
    assert affine(weight, mask, torch.tensor([1.0, 10.0, 100.0])).tolist() == [112.0, 13.0]
    assert affine(weight, mask, torch.tensor([1.0, 10.0, 100.0, 1000.0])).tolist() == [2112.0, 13.0]


def _trained(method: str, steps: int) -> tuple[AffineSwitches, MultiDomainNet]:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    net = adapt(backbone, {"a": ["x", "y"]}, method)
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["a"], "method": method}
    learner = Learner(net, parse_recipe(content | {"training": {"lr": 0.05, "switch_lr": 1e-4}}))
    for step in range(steps):
        labels = torch.arange(8) % 2
        noise = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(step))
        learner.step([Batch(0, noise + labels[:, None, None, None], labels)])
    switches = net.adapters[0]
    assert isinstance(switches, AffineSwitches)
    return switches, net


@pytest.mark.parametrize("method", ["weight_transform", "affine_masks"])
def test_masks_and_coefficients_change_the_weights_within_a_few_steps(method: str) -> None:
    start, before = _trained(method, 0)
    learned, after = _trained(method, 12)
    assert bool(start.masks().all())  # the backbone
    assert 0.1 < float(learned.masks().float().mean()) < 0.9
    moved = (learned.coefficients_DK - start.coefficients_DK).detach().abs().mean()
    assert float(moved) > 2e-3
    for name, weight in after.tensors("a").items():
        if name.endswith("conv1.weight"):
            # more than norms could undo: the direction of every filter has changed
            filters, frozen = weight.detach().flatten(1), before.tensors("a")[name].detach().flatten(1)
            assert float(torch.cosine_similarity(filters, frozen).mean()) < 0.999


def test_scores_start_in_the_published_range_and_coefficients_as_documented() -> None:
    """Mancini et al. (2018, 2020) draw scores between 1e-4 and 2e-4; `mask_scale` and `coefficient_lr` are ours."""
    switches, _ = _trained("weight_transform", 0)
    scores = switches.scores_DM.detach()
    assert switches.threshold == 0
    assert 1e-4 <= float(scores.min()) < 1.1e-4
    assert 1.9e-4 < float(scores.max()) <= 2e-4
    k0, k1, k2 = switches.coefficients_DK.detach()[0].view(-1, 3).T
    assert bool((k0 == 1).all())
    torch.testing.assert_close(k1, -k2)
    assert bool((k2 > 0).all())
    assert switches.rates() == {switches.coefficients_DK: 1e-3}


def test_scores_of_piggyback_learn_at_a_rate_of_their_own() -> None:
    net = adapt(load_backbone(BackboneChoice(name="wrn14_2")), {"a": ["x", "y"]}, "piggyback")
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["a"], "method": "piggyback"}
    learner = Learner(net, parse_recipe(content | {"training": {"lr": 0.05, "switch_lr": 0.1}}))
    switches = net.adapters[0]
    assert isinstance(switches, WeightSwitches)
    learner.step([Batch(0, torch.randn(8, 3, 32, 32), torch.arange(8) % 2)])
    moved = (switches.scores_DM.detach() - 1e-2).abs().max()
    assert float(moved) == pytest.approx(1e-4, rel=1e-2)  # the authors' rate: Adam's first step is as long as it
    assert bool(switches.masks().all())
