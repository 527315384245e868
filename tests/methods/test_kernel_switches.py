"""BA² and the budget-aware methods: their switches, and options that earlier versions did without."""

import pytest
import torch
from torch import nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.images import Preprocess
from prunus.masks.switches import Switches
from prunus.methods.kernel_switches import BA2, BA2_INDIVIDUAL, INTERSECTION, JACCARD, UNION, Options, build


@pytest.mark.parametrize(("granularity", "switches"), [("auto", 36), ("kernel", 36), ("1x4", 18), ("filter", 10)])
def test_a_domain_has_one_switch_per_unit(granularity: str, switches: int) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    preprocess = Preprocess(size=8, resize=8, mean=(0, 0, 0), std=(1, 1, 1))
    backbone = Backbone("tiny", network, preprocess, probe_network(network, 8))
    adapter = build(backbone, [2, 2, 5], Options.model_validate({"granularity": granularity}))[0]
    assert isinstance(adapter, Switches)
    assert adapter.scores_DM.shape == (3, switches)
    assert bool(adapter.masks().all())


def test_the_methods_differ_in_what_they_share_and_how_they_train() -> None:
    assert [method.sharing for method in (BA2, UNION, INTERSECTION, JACCARD)] == [
        None,
        "union",
        "intersection",
        "jaccard",
    ]
    assert [method.individual for method in (BA2, BA2_INDIVIDUAL)] == [False, True]
    assert not BA2.together
    assert all(method.together for method in (UNION, INTERSECTION, JACCARD))


def test_an_option_of_later_versions_is_recorded_only_if_it_is_set() -> None:
    assert "budget_per" not in Options().model_dump()
    assert Options(budget_per="macs").model_dump()["budget_per"] == "macs"
