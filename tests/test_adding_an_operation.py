"""A new operation takes six places: its declaration, and a row each for lowering, torch, numpy, native and ONNX."""

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import fx
from typing_extensions import override

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle, write_bundle
from prunus.graph import compute as graph_compute
from prunus.graph import operations
from prunus.graph.cut import cut
from prunus.graph.operations import ChannelRule, Operation, Shape, Value
from prunus.lowering.build import build_graph
from prunus.lowering.builder import GraphBuilder
from prunus.lowering.computed_macs import computed
from prunus.lowering.rules import table
from prunus.measure.bundle_cost import bundle_costs
from prunus.onnx import nodes
from prunus.onnx.model import domain_model
from prunus.runtime import native_engine
from prunus.runtime._native import Program
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.torch_graph import operations as torch_operations
from tests.lowering.test_build import assert_same
from tests.makers.masked_networks import TWO_DOMAINS, assert_same_logits, draw_tiny, packed
from tests.makers.odd_networks import mean, odd_net


class Negate(Operation):
    """-x, channel by channel."""

    channel_rule: ClassVar[ChannelRule] = "channelwise"

    op: Literal["negate"]
    inputs: tuple[Value]

    @override
    def macs(self, inputs: Sequence[Shape]) -> int:
        return prod(inputs[0])


def _lower(builder: GraphBuilder, node: fx.Node) -> int:
    return builder.add(Negate(op="negate", inputs=(builder.source(node),)))


def _native(program: Program, bundle: Bundle, number: int, operation: Negate) -> None:
    scales: list[Floats | None] = [np.full(bundle.manifest.shapes[number][0], -1.0, np.float32)] * len(bundle.domains)
    program.add_affine(operation.inputs[0], "none", 0.0, scales, [None] * len(scales))


def _onnx(writer: Any, operation: Negate, inputs: Sequence[str]) -> str:  # noqa: ANN401  # a private class
    return str(writer.onnx.node("Neg", inputs[0]))


@pytest.fixture
def negate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the operation: all that a new one needs."""
    monkeypatch.setitem(operations.OPERATIONS, "negate", Negate)
    monkeypatch.setitem(table.RULES, torch.neg, _lower)
    monkeypatch.setitem(torch_operations.TORCH, "negate", lambda operation, inputs, tensors: -inputs[0])
    monkeypatch.setitem(graph_compute.NUMPY, "negate", lambda operation, inputs, tensors, sides: -inputs[0])
    monkeypatch.setitem(native_engine.STEPS, "negate", _native)
    monkeypatch.setitem(nodes.NODES, "negate", _onnx)


@pytest.mark.usefixtures("negate")
def test_a_new_operation_goes_from_torch_to_a_file_and_to_every_engine(tmp_path: Path) -> None:
    backbone, net = odd_net(lambda m, x: mean(m.b(torch.neg(m.act(m.norm(m.a(x)))))))
    draw_tiny(net, "dead channels", torch.Generator().manual_seed(3))
    network = build_graph(net)
    assert [operation.op for operation in network.graph] == ["conv", "negate", "conv", "mean"]
    assert_same(net, network)
    small = cut(network)
    assert small.shapes[2][0] < network.shapes[2][0]
    assert_same(net, small)
    write_bundle(tmp_path / "m.prunus", packed(net, backbone, TWO_DOMAINS))
    bundle = read_bundle(tmp_path / "m.prunus")
    assert bundle_costs(bundle).product_macs == prod(small.shapes[2])
    assert computed(network, backbone.probe).product_macs == prod(network.shapes[2])
    for engine in (NumpyEngine(bundle), NativeEngine(bundle)):
        assert_same_logits(net, engine.logits, sensitive=False)
    models = {name: domain_model(onnx, bundle, name).SerializeToString() for name in bundle.domains}
    sessions = {name: onnxruntime.InferenceSession(model) for name, model in models.items()}
    assert_same_logits(net, lambda images, name: sessions[name].run(None, {"images": images})[0], sensitive=False)


def test_without_its_rows_the_operation_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(table.RULES, torch.neg)
    _, net = odd_net(lambda m, x: mean(torch.neg(m.a(x))))
    with pytest.raises(ValueError, match="the operation 'neg' is not among those of a model file's graph"):
        build_graph(net)
