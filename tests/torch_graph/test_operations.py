"""Every operation of a graph in torch equals the layer of torch, or a formula, that it stands for."""

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from prunus.graph.operations import OPERATIONS, ActivationName
from prunus.torch_graph.operations import ACTIVATIONS, TORCH, compute
from tests.makers.graph_bundles import convolution, make_graph

IMAGES = torch.randn(2, 4, 7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
OTHER = torch.randn(2, 4, 7, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
SCALE = torch.tensor([0.5, -1.0, 2.0, 3.0], dtype=torch.float64)
BIAS = torch.tensor([1.0, 0.0, -2.0, 0.25], dtype=torch.float64)


def _run(fields: dict[str, Any], *inputs: Tensor, tensors: Mapping[str, Tensor] | None = None) -> Tensor:
    return compute(make_graph(fields)[0], inputs, tensors or {})


def test_every_operation_and_every_activation_has_a_row() -> None:
    assert TORCH.keys() == OPERATIONS.keys()
    assert set(ACTIVATIONS) == set(get_args(ActivationName))


FORMULAS: dict[ActivationName, Callable[[float], float]] = {
    "none": lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "relu6": lambda x: min(max(x, 0.0), 6.0),
    "leaky_relu": lambda x: x if x > 0 else 0.3 * x,
    "elu": lambda x: x if x > 0 else 0.3 * (math.exp(x) - 1),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "mish": lambda x: x * math.tanh(math.log(1 + math.exp(x))),
    "hard_swish": lambda x: x * min(max(x + 3, 0.0), 6.0) / 6,
    "hard_sigmoid": lambda x: min(max(x + 3, 0.0), 6.0) / 6,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("name", get_args(ActivationName))
def test_an_activation_is_its_formula(name: ActivationName) -> None:
    numbers = [-7.0, -3.5, -1.0, -0.2, 0.0, 0.3, 1.0, 2.5, 5.9, 7.0]
    x = torch.tensor(numbers, dtype=torch.float64).reshape(1, 1, 1, -1)
    result = _run({"op": "affine", "inputs": (0,), "activation": name, "slope": 0.3}, x)
    expected = torch.tensor([FORMULAS[name](number) for number in numbers], dtype=torch.float64)
    torch.testing.assert_close(result.reshape(-1), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 2, 4])
@torch.no_grad()
def test_a_convolution_is_torchs_layer_over_padded_images(groups: int) -> None:
    layer = nn.Conv2d(4, 4, (3, 2), stride=(2, 1), dilation=(1, 2), groups=groups, bias=False).double()
    fields = convolution("c", [0], (4, 4 // groups), kernel=(3, 2), pads=(1, 0, 2, 3), stride=(2, 1), dilation=(1, 2))
    result = _run(fields | {"groups": groups}, IMAGES, tensors={"weight": layer.weight})
    torch.testing.assert_close(result, layer(nn.ZeroPad2d((0, 3, 1, 2))(IMAGES)))


@torch.no_grad()
def test_ones_are_kernels_over_one_more_input_that_is_one_in_the_image() -> None:
    layer = nn.Conv2d(5, 4, 3, padding=1, bias=False).double()
    expected = layer(torch.cat([IMAGES, torch.ones(2, 1, 7, 6)], 1)) * SCALE[:, None, None] + BIAS[:, None, None]
    tensors = {"weight": layer.weight[:, :4], "ones": layer.weight[:, 4], "scale": SCALE, "bias": BIAS}
    fields = convolution("c", [0, 1], (4, 4), activation="relu")
    result = _run(fields, IMAGES, OTHER, tensors=tensors)
    torch.testing.assert_close(result, torch.relu(expected + OTHER))


@torch.no_grad()
def test_norms_scale_and_shift_channels() -> None:
    affine = _run({"op": "affine", "inputs": (0,)}, IMAGES, tensors={"scale": SCALE, "bias": BIAS})
    for channel in range(4):
        torch.testing.assert_close(affine[:, channel], IMAGES[:, channel] * SCALE[channel] + BIAS[channel])
    layer = nn.LayerNorm(4, eps=1e-3).double()
    layer.weight.copy_(SCALE)
    layer.bias.copy_(BIAS)
    result = _run({"op": "layer_norm", "inputs": (0,), "eps": 1e-3}, IMAGES, tensors={"scale": SCALE, "bias": BIAS})
    torch.testing.assert_close(result, layer(IMAGES.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
    plain = _run({"op": "layer_norm", "inputs": (0,), "eps": 1e-3}, IMAGES)
    torch.testing.assert_close(plain.mean(1), torch.zeros(2, 7, 6, dtype=torch.float64))


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("count_pads", [False, True])
def test_pools_are_torchs_layers(ceil: bool, padding: int, count_pads: bool) -> None:
    fields = {"op": "pool", "inputs": (0,), "kernel": (3, 2), "stride": (2, 3), "pads": (padding,) * 4, "ceil": ceil}
    largest = _run(fields | {"kind": "max"}, IMAGES)
    torch.testing.assert_close(largest, nn.MaxPool2d((3, 2), (2, 3), padding, ceil_mode=ceil)(IMAGES))
    mean = _run(fields | {"kind": "mean", "count_pads": count_pads}, IMAGES)
    torch.testing.assert_close(mean, nn.AvgPool2d((3, 2), (2, 3), padding, ceil, count_pads)(IMAGES))


def test_sums_products_joins_zeros_and_means() -> None:
    pixel = OTHER[:, :, :1, :1]
    torch.testing.assert_close(
        _run({"op": "add", "inputs": (0, 1), "activation": "relu"}, IMAGES, OTHER), (IMAGES + OTHER).clamp(min=0)
    )
    torch.testing.assert_close(_run({"op": "mul", "inputs": (0, 1)}, IMAGES, pixel)[1, 2], IMAGES[1, 2] * pixel[1, 2])
    joined = _run({"op": "cat", "inputs": (0, 1)}, IMAGES, OTHER)
    assert torch.equal(joined[:, :4], IMAGES)
    assert torch.equal(joined[:, 4:], OTHER)
    longer = _run({"op": "append_zeros", "inputs": (0,), "count": 2}, IMAGES)
    assert torch.equal(longer[:, :4], IMAGES)
    assert torch.equal(longer[:, 4:], torch.zeros(2, 2, 7, 6))
    torch.testing.assert_close(_run({"op": "mean", "inputs": (0,)}, IMAGES)[1, 3, 0, 0], IMAGES[1, 3].sum() / 42)
