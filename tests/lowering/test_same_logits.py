"""No bundle is made whose logits are not those of its network."""

import copy
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from prunus.errors import NoFileError
from prunus.lowering import pack as packing
from prunus.lowering.same_logits import CLOSE, check_logits
from tests.makers.masked_networks import TWO_DOMAINS, draw_tiny, packed
from tests.makers.odd_networks import OddNetwork, mean, odd_net


def run(m: OddNetwork, x: Tensor) -> Tensor:
    return mean(m.c(m.act(m.norm(m.a(x)))))


@pytest.mark.parametrize("domain", TWO_DOMAINS)
def test_a_wrong_weight_of_one_domain_is_noticed(domain: str) -> None:
    backbone, net = odd_net(run)
    draw_tiny(net, "everything on", torch.Generator().manual_seed(1))
    bundle = packed(net, backbone, TWO_DOMAINS)
    weight, _ = bundle.head(domain)
    wrong = replace(bundle, arrays=bundle.arrays | {f"head/{domain}/weight": weight * np.float32(1.01)})
    with pytest.raises(NoFileError, match=rf"logits .* differ by .* in domain '{domain}'.*mistake in Prunus"):
        check_logits(net, wrong)


def test_a_wrong_weight_is_noticed_beside_a_large_bias() -> None:
    backbone, net = odd_net(run)
    for head in net.heads:
        torch.nn.init.constant_(head.get_parameter("bias"), 1000.0)
    bundle = packed(net, backbone, TWO_DOMAINS)
    weight, _ = bundle.head("a")
    wrong = replace(bundle, arrays=bundle.arrays | {"head/a/weight": weight * np.float32(1.5)})
    with pytest.raises(NoFileError, match="in domain 'a'"):
        check_logits(net, wrong)


def test_a_network_that_is_lowered_wrongly_becomes_no_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, net = odd_net(run)
    other = packing.lower(odd_net(lambda m, x: mean(m.c(m.act(m.norm(m.a(x)) * 1.01))))[1])
    monkeypatch.setattr(packing, "lower", lambda net: other)
    net.train()
    with pytest.raises(NoFileError, match=re.escape("no model file can hold it")):
        packed(net, backbone, TWO_DOMAINS)
    assert net.training


def test_rounding_is_allowed_where_a_network_amplifies_it() -> None:
    backbone, net = odd_net(lambda m, x: mean((m.a(x) + 30000.0) * 1.5 - 45000.0))
    for head in net.heads:
        assert isinstance(head, torch.nn.Linear)
        torch.nn.init.zeros_(head.bias)
    image = torch.randn(1, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    exact = copy.deepcopy(net).double()(image.double(), "a")
    assert (net(image, "a") - exact).abs().max() > 10 * CLOSE * exact.abs().max()
    assert packed(net, backbone, TWO_DOMAINS).domains == tuple(TWO_DOMAINS)


def test_logits_that_are_no_numbers_are_not_compared() -> None:
    backbone, net = odd_net(run)
    bundle = packed(net, backbone, TWO_DOMAINS)
    with torch.no_grad():
        for parameter in net.heads.parameters():
            parameter.fill_(torch.inf)
    check_logits(net, bundle)
    assert not net(torch.zeros(1, 3, 9, 9), "a").isfinite().all()
