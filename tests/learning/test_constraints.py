"""What the budget and sharing losses add to the scores' gradients, against autograd, and whose switches they move."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.images import Preprocess
from prunus.learning.constraints import Constraints
from prunus.learning.learner import Batch, Learner
from prunus.masks.binarize import binarize
from prunus.masks.switches import Switches
from prunus.methods.table import adapt, choose_method
from tests.makers.tiny_training import CLASSES, tiny_net, tiny_recipe

ALL = torch.tensor([True, True])
FIRST = torch.tensor([True, False])


def _batch(domain: int, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return Batch(domain, torch.randn(4, 3, 9, 9, generator=generator), torch.tensor([0, 1, 1, 0]))


def _constraints(
    budget: float | None = 0.3, rate: float = 2.0, sharing_rate: float | None = None, **changes: object
) -> Constraints:
    return Constraints(choose_method(tiny_recipe(**changes)), budget, rate, len(CLASSES), sharing_rate)


def _switches() -> Switches:
    """Return the switches of the tiny network, about half of them on, with a gradient of 0."""
    switches = tiny_net().switches
    assert switches is not None
    switches.scores_DM.grad = torch.zeros_like(switches.scores_DM)
    return switches


def _gradient(constraints: Constraints, active_D: torch.Tensor) -> tuple[torch.Tensor, list[bool]]:
    switches = _switches()
    moved_D = constraints.add_gradients(switches, active_D)
    assert switches.scores_DM.grad is not None
    return switches.scores_DM.grad, moved_D.tolist()


def test_a_budget_presses_all_switches_of_the_batchs_domains_alike() -> None:
    gradient_DM, moved = _gradient(constraints := _constraints(method="ba2"), FIRST)
    mask_DM = _switches().masks()
    multiplier = 2.0 * (float(mask_DM[0].float().mean()) - 0.3)
    assert constraints.budget_multiplier_D.tolist() == pytest.approx([multiplier, 0.0])
    torch.testing.assert_close(gradient_DM[0], torch.full_like(gradient_DM[0], multiplier / mask_DM.shape[1]))
    assert not gradient_DM[1].any()
    assert moved == [True, False]


@pytest.mark.parametrize("method", ["ba2", "union"])
@pytest.mark.parametrize("budget", [None, 1.0])
def test_without_a_limit_nothing_presses(method: str, budget: float | None) -> None:
    gradient_DM, moved = _gradient(_constraints(budget, method=method), FIRST)
    assert not gradient_DM.any()
    assert moved == [True, False]


def test_a_sharing_loss_that_holds_moves_only_the_batchs_domains() -> None:
    constraints = _constraints(method="jaccard")
    switches = _switches()
    with torch.no_grad():
        switches.scores_DM[1] = switches.scores_DM[0]  # the same kernels: the Jaccard loss is 0
    assert constraints.add_gradients(switches, FIRST).tolist() == [True, False]
    assert float(constraints.sharing_multiplier) == 0.0


def test_a_penalty_of_fixed_weight_leaves_domains_outside_the_batch_alone() -> None:
    constraints = _constraints(None, method="ba2", sharing={"loss": "soft_overlap", "weight": 3.0})
    gradient_DM, moved = _gradient(constraints, FIRST)
    assert gradient_DM[0].any()
    assert not gradient_DM[1].any()
    assert moved == [True, False]
    assert float(constraints.sharing_multiplier) == 3.0


def test_multipliers_are_saved_under_their_names() -> None:
    constraints = _constraints()
    _gradient(constraints, ALL)
    assert constraints.tensors().keys() == {"budget", "sharing"}
    assert constraints.tensors()["budget"] is constraints.budget_multiplier_D
    assert float(constraints.tensors()["sharing"]) > 0
    learner = Learner(tiny_net(), tiny_recipe())
    assert learner.tensors()["multiplier/budget"] is learner.constraints.budget_multiplier_D
    assert learner.tensors()["multiplier/sharing"] is learner.constraints.sharing_multiplier


def test_the_sharing_loss_moves_the_switches_of_domains_that_are_not_in_the_batch() -> None:
    net = tiny_net()
    assert net.switches is not None
    before = net.switches.scores_DM.detach().clone()
    Learner(net, tiny_recipe()).step([_batch(0)])
    assert not torch.equal(net.switches.scores_DM[1], before[1])


def test_ba2_moves_only_the_domain_of_the_batch() -> None:
    net = tiny_net("ba2")
    assert net.switches is not None
    before = net.switches.scores_DM.detach().clone()
    Learner(net, tiny_recipe(method="ba2")).step([_batch(0)])
    assert torch.equal(net.switches.scores_DM[1], before[1])
    assert not torch.equal(net.switches.scores_DM[0], before[0])


def test_a_fixed_sharing_weight_stays_and_a_learned_one_climbs() -> None:
    fixed, learned = Learner(tiny_net(), tiny_recipe(sharing={"weight": 0.5})), Learner(tiny_net(), tiny_recipe())
    seen = []
    for _ in range(3):
        fixed.step([_batch(0)])
        learned.step([_batch(0)])
        seen.append(float(learned.constraints.sharing_multiplier))
    assert float(fixed.constraints.sharing_multiplier) == 0.5
    assert 0 < seen[0] < seen[1] < seen[2]


@pytest.mark.parametrize("granularity", ["1x4", "filter", "input_channel"])
def test_coarse_switches_feel_the_losses_of_all_their_kernels_over_the_root_of_their_number(granularity: str) -> None:
    """Autograd over kernels computes the same gradients; the cross-entropy's is the plain sum."""
    recipe = tiny_recipe(budget=0.3, granularity=granularity, training={"dual_rate": 3.0, "lr": 0.1, "momentum": 0})
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    backbone = Backbone(
        "t", network, Preprocess(size=9, resize=9, mean=(0, 0, 0), std=(1, 1, 1)), probe_network(network, 9)
    )
    nets = [adapt(backbone, CLASSES, "union", options=choose_method(recipe).options) for _ in range(2)]
    Learner(nets[0], recipe).step([_batch(1)])
    ours, theirs = nets[0].switches, nets[1].switches
    assert ours is not None
    assert theirs is not None
    usage = binarize(theirs.layout.spread(theirs.scores_DM))
    violations = usage[1].mean() - 0.3, (1 - (1 - usage[0]) * (1 - usage[1])).mean() - 0.3
    loss = F.cross_entropy(nets[1](_batch(1).images, "b"), _batch(1).labels)
    learned = torch.autograd.grad(loss, theirs.scores_DM, retain_graph=True)[0]
    penalty = torch.stack([3.0 * float(v.detach()) * v for v in violations])
    pressed = torch.autograd.grad(penalty.sum(), theirs.scores_DM)[0]
    counts = {  # kernels of each switch
        "1x4": [1.0] * 18 + [4.0, 2.0] * 5,
        "filter": [3.0] * 6 + [6.0] * 5,
        "input_channel": [6.0] * 3 + [5.0] * 6,
    }
    expected = learned + pressed / torch.tensor(counts[granularity]).sqrt()
    torch.testing.assert_close(ours.scores_DM.grad, expected, rtol=1e-4, atol=1e-7)


def test_the_weight_of_the_sharing_loss_climbs_at_its_own_rate() -> None:
    usual, faster = _constraints(method="union"), _constraints(method="union", sharing_rate=8.0)
    for constraints in (usual, faster):
        _gradient(constraints, FIRST)
    assert float(faster.sharing_multiplier) == pytest.approx(4 * float(usual.sharing_multiplier))
    assert float(usual.sharing_multiplier) > 0
    assert torch.equal(faster.budget_multiplier_D, usual.budget_multiplier_D)


def test_frozen_domains_are_not_moved_by_the_sharing_loss() -> None:
    usual, moved = _gradient(_constraints(method="union", sharing={"weight": 1.0}), FIRST)
    frozen, stayed = _gradient(_constraints(method="union", sharing={"weight": 1.0, "freeze_others": True}), FIRST)
    assert torch.equal(frozen[0], usual[0])
    assert usual[1].any()
    assert not frozen[1].any()
    assert (moved, stayed) == ([True, True], [True, False])


def test_soft_overlap_sums_the_overlaps_of_soft_masks_over_the_layers() -> None:
    switches = _switches()
    scores = switches.scores_DM.detach().double().requires_grad_()
    soft = torch.sigmoid(scores / 1e-3)  # in units of the start
    soft.retain_grad()
    overlap = torch.zeros((), dtype=torch.float64)
    start = 0
    for conv in switches.layout.convs:
        first, second = soft[:, start : start + conv.num_kernels]
        overlap = overlap + (first * second).sum() / (first + second - first * second).sum()
        start += conv.num_kernels
    (0.1 * overlap).backward()  # type: ignore[no-untyped-call]
    constraints = _constraints(None, method="ba2", sharing={"loss": "soft_overlap"})
    gradient_DM, moved = _gradient(constraints, ALL)
    assert soft.grad is not None
    torch.testing.assert_close(gradient_DM.double(), soft.grad, rtol=1e-4, atol=1e-8)
    assert moved == [True, True]


@pytest.mark.parametrize("per", ["layer", "macs"])
def test_a_budget_can_be_counted_per_layer_or_by_multiply_accumulates(per: str) -> None:
    constraints = _constraints(method={"name": "ba2", "budget_per": per})
    gradient_DM, moved = _gradient(constraints, FIRST)
    layers = _switches().layout.views(gradient_DM)
    assert all(float(part[0].std()) == pytest.approx(0, abs=1e-9) for part in layers.values())  # alike in a layer
    assert len({round(float(part[0].flatten()[0]), 9) for part in layers.values()}) > 1  # and not between them
    assert not gradient_DM[1].any()
    assert moved == [True, False]
