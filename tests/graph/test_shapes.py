"""Values have the shapes that torch gives them, and what cannot be is refused."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from prunus.errors import BundleError
from prunus.graph.operations import Conv, Graph, Pool
from prunus.graph.shapes import value_shapes

GRAPH: TypeAdapter[Graph] = TypeAdapter(Graph)
pairs = st.tuples(st.integers(1, 5), st.integers(1, 5))
IMAGE = (3, 9, 9)


@given(
    kernel=pairs,
    stride=pairs,
    dilation=pairs,
    pads=st.tuples(*[st.integers(0, 4)] * 4),
    groups=st.sampled_from([1, 3]),
)
def test_convolutions_have_torchs_shapes(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    pads: tuple[int, int, int, int],
    groups: int,
) -> None:
    top, left, bottom, right = pads
    x = F.pad(torch.zeros(1, *IMAGE), (left, right, top, bottom))
    weight = torch.zeros(6, 3 // groups, *kernel)
    assume(all((k - 1) * d < side for k, d, side in zip(kernel, dilation, x.shape[2:], strict=True)))
    expected = F.conv2d(x, weight, stride=stride, dilation=dilation, groups=groups)
    conv = Conv(
        op="conv",
        inputs=(0,),
        layer="c",
        channels=(6, 3 // groups),
        kernel=kernel,
        stride=stride,
        dilation=dilation,
        pads=pads,
        groups=groups,
    )
    assert value_shapes((conv,), 9) == [IMAGE, tuple(expected.shape[1:])]


@given(kernel=pairs, stride=pairs, draw=st.data(), ceil=st.booleans())
def test_pools_have_torchs_shapes(
    kernel: tuple[int, int], stride: tuple[int, int], draw: st.DataObject, ceil: bool
) -> None:
    top, left = (draw.draw(st.integers(0, side // 2)) for side in kernel)
    expected = F.max_pool2d(torch.zeros(1, *IMAGE), kernel, stride, (top, left), ceil_mode=ceil)
    pool = Pool(
        op="pool", inputs=(0,), kind="max", kernel=kernel, stride=stride, pads=(top, left, top, left), ceil=ceil
    )
    assert value_shapes((pool,), 9) == [IMAGE, tuple(expected.shape[1:])]


def test_other_operations_keep_join_or_shrink_shapes() -> None:
    graph = GRAPH.validate_python(
        [
            {"op": "mean", "inputs": [0]},
            {"op": "mul", "inputs": [0, 1]},
            {"op": "cat", "inputs": [0, 2, 2]},
            {"op": "append_zeros", "inputs": [3], "count": 4},
            {"op": "layer_norm", "inputs": [4], "eps": 1e-6},
            {"op": "affine", "inputs": [5], "activation": "relu"},
            {"op": "add", "inputs": [6, 6]},
        ]
    )
    assert value_shapes(graph, 5) == [
        (3, 5, 5),
        (3, 1, 1),
        (3, 5, 5),
        (9, 5, 5),
        (13, 5, 5),
        (13, 5, 5),
        (13, 5, 5),
        (13, 5, 5),
    ]


CONV = {"op": "conv", "inputs": [0], "layer": "c", "channels": [4, 3], "kernel": [3, 3]}
POOL = {"op": "pool", "inputs": [0], "kind": "max", "kernel": [3, 3], "stride": [1, 1]}


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([{"op": "mean", "inputs": [1]}], "reads a value that is computed after it"),
        ([CONV | {"kernel": [9, 9]}], "impossible shape"),
        ([CONV | {"groups": 2}], "2 groups of 3 inputs, but its input has 3"),
        ([CONV | {"channels": [4, 1], "groups": 3}], "4 outputs and 3 groups"),
        ([CONV | {"inputs": [0, 0]}], "its residual is"),
        ([CONV | {"channels": [2**16, 3], "pads": [99] * 4}], "impossible shape"),
        ([CONV | {"pads": [2**16] * 4, "stride": [2**16] * 2}], "impossible pads"),
        ([POOL | {"pads": [3, 0, 0, 0]}], "impossible windows"),
        ([POOL | {"kernel": [2**16] * 2, "ceil": True}], "impossible windows"),
        ([{"op": "mean", "inputs": [0]}, {"op": "add", "inputs": [0, 1]}], "different shapes"),
        ([{"op": "mean", "inputs": [0]}, {"op": "mul", "inputs": [1, 0]}], "different shapes"),
        ([{"op": "mean", "inputs": [0]}, {"op": "cat", "inputs": [0, 1]}], "different sizes"),
        ([{"op": "append_zeros", "inputs": [0], "count": 2**16}] * 300, "numbers together"),
    ],
)
def test_what_cannot_be_computed_is_refused(operations: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        value_shapes(GRAPH.validate_python(operations), 8)


@pytest.mark.parametrize(
    ("operation", "numbers"), [(CONV, 3 * 9 * 36), (POOL, 3 * 9 * 36), ({"op": "mean", "inputs": [0]}, 0)]
)
def test_windows_hold_the_channels_times_the_kernel_at_every_position(
    operation: dict[str, Any], numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = GRAPH.validate_python([operation])
    monkeypatch.setattr("prunus.graph.shapes.MAX_WINDOW_NUMBERS", numbers)
    value_shapes(graph, 8)
    monkeypatch.setattr("prunus.graph.shapes.MAX_WINDOW_NUMBERS", numbers - 1)
    with pytest.raises(BundleError, match="impossible shape"):
        value_shapes(graph, 8)
