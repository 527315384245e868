"""Methods do what their authors published: short runs in which earlier versions of Prunus did something else.

Only names that those versions had as well are used, so every test can be run on them. It then fails on what it asserts.
"""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typing_extensions import override

import prunus
from prunus.arrays import Bytes
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.data.own.domain import OwnDomain
from prunus.learning.learner import Batch, Learner
from prunus.masks.layout import convolutions
from prunus.masks.network import MultiDomainNet
from prunus.methods.costs import network_costs
from prunus.methods.table import METHODS, adapt
from prunus.recipes import parse_recipe
from tests.makers.method_costs import NINE, wrn28
from tests.makers.tiny_training import tiny_net, tiny_recipe

STEPS = 60
SHORT_RUN = {"epochs": 3, "lr": 0.05, "weight_lr": 0.02, "switch_lr": 3e-4}


def _learner(method: str) -> Learner:
    net = adapt(load_backbone(BackboneChoice(name="wrn14_2")), {"a": ["x", "y"]}, method)
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["a"], "method": method, "training": SHORT_RUN}
    return Learner(net, parse_recipe(content))


def _step(learner: Learner, step: int) -> None:
    """Take one of the steps of a short run, on noise whose brightness tells the class."""
    labels = torch.arange(8) % 2
    noise = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(step))
    learner.move_to(3 * step / STEPS)
    learner.step([Batch(0, noise + labels[:, None, None, None], labels)])


def _weights(net: MultiDomainNet) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in net.tensors("a").items() if name.endswith("conv1.weight")}


def test_taps_first_learns_residuals_and_then_switches_layers_off_for_good() -> None:
    """Without a warm-up and with scores at `lr`, all 13 layers were off at step 6, and flipped 36 times in 60 steps."""
    learner = _learner("taps")
    (scores,) = (parameter for name, parameter in learner.net.named_parameters() if "scores" in name)
    chosen = [scores.detach() > 0.1]
    for step in range(STEPS):
        _step(learner, step)
        chosen.append(scores.detach() > 0.1)
    assert all(bool(layers.all()) for layers in chosen[: STEPS // 2])
    flips = sum(int((before != after).sum()) for before, after in itertools.pairwise(chosen))
    assert int(chosen[-1].sum()) < flips < 2 * len(scores)  # most that are switched off stay so


@pytest.mark.parametrize("method", ["weight_transform", "affine_masks"])
def test_masks_and_their_coefficients_turn_filters_away_from_the_backbones(method: str) -> None:
    """Few bits changed, and k2 was almost 0: filters turned by 0.0009, and without masks weights differed by 0.14 %."""
    learner = _learner(method)
    before = _weights(learner.net)
    for step in range(STEPS):
        _step(learner, step)
    after = _weights(learner.net)
    turned = [1 - torch.cosine_similarity(after[name].flatten(1), before[name].flatten(1)).mean() for name in before]
    assert float(torch.stack(turned).mean()) > 0.003
    switches = learner.net.switches
    assert switches is not None
    with torch.no_grad():
        switches.scores_DM.fill_(1.0)  # every bit on
    unmasked = _weights(learner.net)
    masked_away = [(after[name] - unmasked[name]).norm() / after[name].norm() for name in after]
    assert float(torch.stack(masked_away).mean()) > 0.05


class RawStages(nn.Module):
    """Two stages that end with a convolution, as in wide residual networks: norm and ReLU begin the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 32, 3, padding=1, bias=False)
        self.feature_info = [{"module": "first"}, {"module": "second"}]

    @override
    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.norm(self.first(images))))).mean((2, 3))


def _contrasts(count: int, seed: int) -> tuple[list[Bytes], list[int]]:
    """Return noise whose contrast tells the class, which no linear function of the image's mean does."""
    rng = np.random.default_rng(seed)
    labels = [index % 2 for index in range(count)]
    return [rng.normal(128, 15 + 45 * label, (16, 16, 3)).clip(0, 255).astype(np.uint8) for label in labels], labels


def test_a_domain_that_the_first_stage_can_solve_exits_there(tmp_path: Path) -> None:
    """Exits were linear in the mean of a stage's raw output and did not learn such classes: the domain did not exit."""
    torch.manual_seed(0)
    network = RawStages()
    images = {"noise": OwnDomain(_contrasts(64, 0), _contrasts(40, 1), _contrasts(40, 2), classes=("low", "high"))}
    content = {
        "preset": "paper",
        "backbone": {"name": "raw_stages", "size": 16, "mean": [0.5] * 3, "std": [0.25] * 3},
        "domains": ["python:noise"],
        "method": {"name": "early_exits", "exits": 2},
        "training": {"epochs": 6, "batch_size": 8, "lr": 0.05, "weight_lr": 0.05, "splits": "train"},
    }
    run = prunus.train(parse_recipe(content), tmp_path / "run", (), "cpu", False, backbone=network, domains=images)
    domain = prunus.evaluate(run, backbone=network, domains=images).domains["noise"]
    assert domain.accuracy > 0.9
    assert domain.macs_ratio < 0.5  # of the network; to the end it is more than 1


def test_soft_overlap_compares_how_far_switches_are_on_layer_by_layer() -> None:
    """Bits of the whole network were compared: a switch felt all layers, and its own score only by its sign."""
    recipe = tiny_recipe(method="ba2", budget=1.0, sharing={"loss": "soft_overlap", "weight": 0.1})

    def gradient(first: float, last: float) -> Tensor:
        switches = tiny_net("ba2").switches
        assert switches is not None
        with torch.no_grad():
            switches.scores_DM.fill_(1e-3)
            switches.scores_DM[1, 0] = first
            switches.scores_DM[1, -1] = last
        switches.scores_DM.grad = torch.zeros_like(switches.scores_DM)
        Learner(tiny_net("ba2"), recipe).constraints.add_gradients(switches, torch.tensor([True, True]))
        return switches.scores_DM.grad[0]

    usual, more, off = gradient(1e-3, 1e-3), gradient(2e-3, 1e-3), gradient(1e-3, -1e-3)
    assert float(more[0]) > float(usual[0])  # the other domain wants this kernel more
    assert torch.equal(more[-1], usual[-1])  # in the other layer
    assert float(off[-1]) < float(usual[-1])
    assert torch.equal(off[0], usual[0])


@pytest.mark.parametrize("share", [0.05, 0.2])
def test_hard_sharing_copies_the_same_number_of_weights_early_late_or_at_random(share: float) -> None:
    """A share of the layers was copied: 1.30, 4.48 and 2.58 networks for early, late and random halves."""
    ratios = []
    for layers in ("early", "late", "random"):
        options = METHODS["hard_sharing"].options.model_validate({"layers": layers, "share": share})
        ratios.append(
            network_costs(adapt(wrn28(), NINE, "hard_sharing", options=options), wrn28().probe).params_ratio()
        )
    convs = convolutions(wrn28().network)
    filter_share = max(conv.num_weights / conv.out_channels for conv in convs) / sum(conv.num_weights for conv in convs)
    for ratio in ratios:  # a common copy of the rest and nine of the share, but for less than a filter
        assert 1 + 8 * (share - filter_share) < ratio <= 1 + 8 * share + 1e-6
