"""Storage by formula: the ratios that the literature publishes for a WRN-28 and ten domains, the source unadapted."""

import math
from functools import cache

import pytest
import torch

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.config import BackboneChoice
from prunus.masks.layout import convolutions
from prunus.measure.cost import CostReport
from prunus.methods.costs import network_costs
from prunus.methods.table import METHODS, adapt
from prunus.methods.taps import ChosenResiduals
from prunus.recipes import parse_recipe
from prunus.training.learner import Batch, Learner

NINE = {f"domain{i}": ["x", "y"] for i in range(9)}


@cache
def _backbone() -> Backbone:
    return load_backbone(BackboneChoice(name="wrn28_4"))


@cache
def _costs(method: str) -> CostReport:
    return network_costs(adapt(_backbone(), NINE, method), _backbone().probe)


@pytest.mark.parametrize(
    ("method", "published"),
    [("feature", 1.0), ("bn", 1.0), ("finetune", 10.0), ("piggyback", 1.28), ("ba2", 1.03), ("union", 1.03)],
)
def test_storage_is_the_published_one(method: str, published: float) -> None:
    assert round(_costs(method).params_ratio(with_source=True), 2) == published


@pytest.mark.parametrize("method", ["series_adapters", "parallel_adapters"])
def test_residual_adapters_are_within_five_percent_of_the_published_two(method: str) -> None:
    assert _costs(method).params_ratio(with_source=True) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(("method", "coefficients"), [("weight_transform", 3), ("affine_masks", 4)])
def test_affine_masks_cost_slightly_more_than_a_bit_per_weight(method: str, coefficients: int) -> None:
    convs = convolutions(_backbone().network)
    weights = sum(conv.num_weights for conv in convs)
    expected = 1 + 9 * (weights + 32 * coefficients * len(convs)) / (32 * weights)
    assert _costs(method).params_ratio(with_source=True) == pytest.approx(expected)


def test_hard_sharing_costs_a_common_copy_and_the_early_layers_of_every_domain() -> None:
    sizes = [conv.num_weights for conv in convolutions(_backbone().network)]
    half = round(len(sizes) / 2)
    expected = (sum(sizes[half:]) + 9 * sum(sizes[:half])) / sum(sizes)
    assert _costs("hard_sharing").params_ratio() == pytest.approx(expected)
    assert _costs("hard_sharing").params_ratio(with_source=True) == pytest.approx(1 + expected)


def test_modulation_costs_its_two_matrices() -> None:
    convs = convolutions(_backbone().network)
    own = sum(min(8, c.out_channels, c.in_channels) * (c.out_channels + c.in_channels) for c in convs)
    assert _costs("modulation").params_ratio() == pytest.approx(1 + 9 * own / sum(c.num_weights for c in convs))


def test_taps_costs_between_one_and_ten_networks() -> None:
    net = adapt(_backbone(), NINE, "taps")
    part = net.adapters[0]
    assert isinstance(part, ChosenResiduals)
    ratios = []
    for share in (1.0, 0.5, 0.0):
        with torch.no_grad():
            for scores in part.scores:
                scores.copy_((torch.arange(len(scores)) < share * len(scores)).float())
        ratios.append(network_costs(net, _backbone().probe).params_ratio(with_source=True))
    assert ratios[0] == pytest.approx(10, rel=1e-4)
    assert 1 < ratios[1] < 10
    assert ratios[2] == pytest.approx(1, rel=1e-4)


def test_taps_adapts_fewer_layers_the_larger_its_sparsity() -> None:
    backbone = load_backbone(BackboneChoice(name="wrn14_2"))
    ratios = []
    for sparsity in (0.0, 1.3, 20.0):
        method = METHODS["taps"].options.model_validate({"sparsity": sparsity})
        net = adapt(backbone, {"a": ["x", "y"]}, "taps", options=method)
        content = {"backbone": "wrn14_2", "domains": ["a"], "method": {"name": "taps", "sparsity": sparsity}}
        learner = Learner(net, parse_recipe(content | {"training": {"lr": 0.01}}))
        generator = torch.Generator().manual_seed(0)
        for _ in range(12):
            labels = torch.arange(8) % 2
            images = torch.randn(8, 3, 32, 32, generator=generator) + labels[:, None, None, None]
            learner.step([Batch(0, images, labels)], epoch=0)
        ratios.append(network_costs(net, backbone.probe).params_ratio())
    assert math.isclose(ratios[0], 2, rel_tol=1e-4)
    assert ratios[0] > ratios[1] > ratios[2] >= 1
