"""Hard sharing: the layers that are copied per domain, and what they cost."""

import pytest
import torch
from torch import nn

from prunus.masks.layout import ConvShape
from prunus.methods.hard_sharing import FilterCopies, Options, copied_filters

# 36, 72, 144 and 144 weights: 396 together
CONVS = [ConvShape(name, o, i, (3, 3)) for name, o, i in (("a", 4, 1), ("b", 4, 2), ("c", 8, 2), ("d", 4, 4))]


@pytest.mark.parametrize(
    ("layers", "share", "expected"),
    [
        ("early", 108 / 396, {"a": 4, "b": 4}),
        ("early", 100 / 396, {"a": 4, "b": 3}),  # three filters of 18 weights fit beside the 36
        ("late", 144 / 396, {"d": 4}),
        ("late", 200 / 396, {"d": 4, "c": 3}),
        ("late", 0.0, {}),
        ("early", 1.0, {"a": 4, "b": 4, "c": 8, "d": 4}),
    ],
)
def test_hard_sharing_copies_as_many_filters_as_fit_into_the_share(
    layers: str, share: float, expected: dict[str, int]
) -> None:
    options = Options.model_validate({"layers": layers, "share": share})
    assert copied_filters(CONVS, options) == expected


def test_random_layers_of_hard_sharing_are_the_same_for_one_seed_and_differ_between_seeds() -> None:
    drawn = [copied_filters(CONVS, Options(layers="random", share=0.4, seed=seed)) for seed in (1, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len({str(filters) for filters in drawn}) > 1


def test_domains_share_the_filters_that_are_not_copied() -> None:
    network = nn.Sequential(nn.Conv2d(2, 4, 3))
    part = FilterCopies(network, "0", 1, 2)
    weight = dict(network.named_parameters())["0.weight"].detach()
    with torch.no_grad():
        part.own.of(1)["weight"].add_(1)
        part.common.of(0)["weight"].add_(2)
        part.common.of(0)["bias"].add_(3)
    for domain, shift in ((0, 0), (1, 1)):
        tensors = part.tensors(domain, {})
        torch.testing.assert_close(tensors["0.weight"][:1], weight[:1] + shift)
        torch.testing.assert_close(tensors["0.weight"][1:], weight[1:] + 2)
        assert tensors["0.bias"].shape == (4,)
