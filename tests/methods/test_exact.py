"""The exact method's parts: what is shared and trained, what each domain has, and where a model file sets bounds."""

from dataclasses import replace

import torch
from torch import nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.images import Preprocess
from prunus.masks.gated_norms import GatedNorms
from prunus.masks.layer_copies import SharedConvolutions
from prunus.masks.pool import PooledSwitches
from prunus.methods.exact import Options, build


def _backbone() -> Backbone:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    preprocess = Preprocess(size=8, resize=8, mean=(0, 0, 0), std=(1, 1, 1))
    return Backbone("tiny", network, preprocess, probe_network(network, 8))


def test_one_copy_of_the_kernels_is_trained_and_every_domain_has_switches_and_norms() -> None:
    shared, pool, norms = build(_backbone(), [2, 3], Options())
    assert isinstance(shared, SharedConvolutions)
    assert isinstance(pool, PooledSwitches)
    assert isinstance(norms, GatedNorms)
    trained = {tuple(weight.shape) for weight in shared.parameters() if weight.requires_grad}
    assert {(4, 3, 3, 3), (6, 4, 1, 1)} <= trained
    assert pool.open_DM.shape == (2, 4 * 3 + 6 * 4)
    assert bool(pool.open_DM.all())
    assert not bool(pool.fixed_DM.any())


def test_frozen_weights_are_the_backbones() -> None:
    pool, norms = build(_backbone(), [2], Options(weights="frozen"))
    assert isinstance(pool, PooledSwitches)
    assert isinstance(norms, GatedNorms)


def test_inside_a_model_file_only_its_kernels_can_be_used() -> None:
    backbone = _backbone()
    kept = {"0": torch.zeros(4, 3, dtype=torch.bool), "3": torch.ones(6, 4, dtype=torch.bool)}
    kept["0"][1, 2] = True
    pool, _ = build(replace(backbone, kept=kept), [2, 2], Options(weights="frozen"))
    assert isinstance(pool, PooledSwitches)
    assert pool.open_DM.sum(1).tolist() == [1 + 24, 1 + 24]
    assert bool(pool.open_DM[0, 1 * 3 + 2])
