"""Kernels and activations that are rounded to 8 bits in training."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from prunus.masks.network import MultiDomainNet
from prunus.masks.rounding import RATE, Rounding, round_activations, round_kernels
from tests.makers.tiny_training import tiny_net


def _net(is_on: bool = True) -> MultiDomainNet:
    net = tiny_net("exact")
    net.rounding = Rounding(net.network, net.switches, len(net.domains))
    net.rounding.is_on = is_on
    return net


def test_kernels_become_multiples_of_a_scale_per_output_channel() -> None:
    weight = torch.tensor([[[[1.27, 0.014]]], [[[-254.0, 1.2]]]])
    assert torch.allclose(round_kernels(weight), torch.tensor([[[[1.27, 0.01]]], [[[-254.0, 2.0]]]]))


def test_a_scale_covers_the_kernels_that_are_kept() -> None:
    weight = torch.tensor([[[[100.0]], [[1.27]], [[0.014]]]])
    kept = torch.tensor([[[[False]], [[True]], [[True]]]])
    assert torch.allclose(round_kernels(weight, kept)[:, 1:], torch.tensor([[[[1.27]], [[0.01]]]]))


def test_a_channel_of_zeros_stays_zero() -> None:
    assert round_kernels(torch.zeros(2, 3, 1, 1)).tolist() == torch.zeros(2, 3, 1, 1).tolist()


@given(seed=st.integers(0, 2**31))
def test_activations_are_at_most_half_a_step_off_and_zero_stays_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = torch.tensor(-rng.exponential(), dtype=torch.float32), torch.tensor(rng.exponential())
    high = high.float()
    x = torch.from_numpy(rng.uniform(float(low), float(high), 200)).float()
    x[0] = 0.0
    rounded = round_activations(x, low, high)
    step = float(high - low) / 255
    assert rounded[0] == 0
    assert float((rounded - x).abs().max()) <= 1.001 * step  # half a step, and as much where zero moves the range
    assert len(set(rounded.tolist())) <= 256


def test_activations_outside_their_range_are_clipped_and_get_no_gradient() -> None:
    x = torch.tensor([-3.0, -0.5, 0.2, 9.0], requires_grad=True)
    rounded = round_activations(x, torch.tensor(-1.0), torch.tensor(1.55))
    assert rounded.tolist() == pytest.approx([-1.0, -0.5, 0.2, 1.55], abs=1e-6)
    rounded.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.tolist() == [0, 1, 1, 0]


def test_gradients_of_kernels_pass_unchanged() -> None:
    weight = torch.randn(4, 3, 3, 3, requires_grad=True)
    factor = torch.randn(4, 3, 3, 3)
    (round_kernels(weight) * factor).sum().backward()  # type: ignore[no-untyped-call]
    assert weight.grad is not None
    assert torch.equal(weight.grad, factor)


def test_half_precision_stays_half() -> None:
    x = torch.randn(8).to(torch.bfloat16)
    assert round_activations(x, torch.tensor(-3.0), torch.tensor(3.0)).dtype == torch.bfloat16


def test_a_range_starts_with_the_first_batch_and_follows_the_others() -> None:
    net = _net()
    rounding = net.rounding
    assert rounding is not None
    images = torch.randn(4, 3, 9, 9)
    net(images, "b")
    seen = images.amin(), images.amax()
    torch.testing.assert_close(rounding.ranges_DL2[1, 0], torch.stack(seen))
    assert not rounding.ranges_DL2[0].any()  # the other domain has not been seen
    net(3 * images, "b")
    torch.testing.assert_close(rounding.ranges_DL2[1, 0], torch.stack(seen) * (1 + 2 * RATE))
    assert float(rounding.ranges_DL2[1, 1, 0]) == 0  # after an activation nothing is below zero
    assert float(rounding.ranges_DL2[1, 1, 1]) > 0


def test_it_computes_what_a_network_of_rounded_numbers_computes() -> None:
    net = _net()
    switches = net.switches
    assert switches is not None
    images = torch.randn(4, 3, 9, 9)
    found = net(images, "a")
    kept = switches.layout.views(switches.masks().any(0))
    masks = switches.layout.views(switches.masks()[0])
    norms, head = net.tensors("a"), net.heads[0]
    plain = _net(is_on=False).tensors("a")
    x = images
    for name in ("0", "3"):
        whole = net.network.get_parameter(f"{name}.weight")
        x = round_activations(x, x.detach().amin().clamp(max=0), x.detach().amax().clamp(min=0))
        x = nn.functional.conv2d(
            x, round_kernels(whole, kept[name]) * masks[name], net.network.get_parameter(f"{name}.bias")
        )
        if name == "0":
            x = nn.functional.batch_norm(x, None, None, norms["1.weight"], norms["1.bias"], training=True).relu()
    torch.testing.assert_close(found, head(x.mean((2, 3))), rtol=1e-4, atol=1e-5)
    assert not torch.equal(norms["0.weight"], plain["0.weight"])


@pytest.mark.parametrize("mode", ["off", "predicting"])
def test_outside_its_part_of_training_nothing_is_rounded(mode: str) -> None:
    net = _net(is_on=mode == "predicting").train(mode == "off")
    plain = tiny_net("exact").train(mode == "off")
    images = torch.randn(4, 3, 9, 9)
    assert torch.equal(net(images, "a"), plain(images, "a"))
    assert net.rounding is not None
    assert not net.rounding.ranges_DL2.any()
