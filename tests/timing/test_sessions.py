"""Engines run models quietly, and return the output that is asked for."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from prunus.errors import BundleError
from prunus.timing.sessions import onnx_run, openvino_run, torch_run

IMAGES = np.arange(6, dtype=np.float32).reshape(2, 3)


def _model() -> bytes:
    """Return a model with two outputs, which pads float16 constants: ONNX Runtime warns that it cannot do so ahead."""
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes: list[Any] = [
        helper.make_node("Pad", ["half", "pads"], ["padded"]),
        helper.make_node("Cast", ["padded"], ["row"], to=kinds.FLOAT),
        helper.make_node("Add", ["images", "row"], ["logits"]),
        helper.make_node("Neg", ["images"], ["negative"]),
    ]
    tensors = {"half": np.ones(2, np.float16), "pads": np.array([0, 1])}
    graph = helper.make_graph(
        nodes,
        "quiet",
        [helper.make_tensor_value_info("images", kinds.FLOAT, [None, 3])],
        [helper.make_tensor_value_info(name, kinds.FLOAT, [None, 3]) for name in ("logits", "negative")],
        [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    return bytes(model.SerializeToString())


def test_onnx_runtime_warns_of_nothing_and_returns_one_output(capfd: pytest.CaptureFixture[str]) -> None:
    np.testing.assert_array_equal(onnx_run(_model(), 1)(IMAGES), IMAGES + np.array([1, 1, 0]))
    np.testing.assert_array_equal(onnx_run(_model(), 1, "negative")(IMAGES), -IMAGES)
    assert capfd.readouterr() == ("", "")


def test_torch_runs_without_gradients() -> None:
    layer = torch.nn.Linear(3, 2)
    np.testing.assert_allclose(torch_run(layer)(IMAGES), layer(torch.from_numpy(IMAGES)).detach().numpy())


def test_openvino_says_in_one_line_what_it_cannot_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("Exception from src/core.cpp:1:\nUnknown operator.\n")

    core = SimpleNamespace(read_model=refuse, compile_model=refuse)
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=lambda: core))
    with pytest.raises(BundleError, match=r"OpenVINO cannot load the network: Unknown operator\.; try"):
        openvino_run(b"", 1, "f32")
