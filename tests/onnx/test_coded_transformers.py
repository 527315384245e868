"""An 8-bit transformer keeps its answers as an ONNX model: what its blocks add is as small as a step of the sum."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import prunus
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import write_bundle
from prunus.errors import BundleError
from prunus.graph.operations import Graph
from prunus.onnx import files
from prunus.onnx.coded_check import CodedCheck
from prunus.onnx.model import domain_model
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.coded_bundles import without_ones
from tests.makers.eight_bit_images import drawn_images
from tests.makers.graph_bundles import convolution, make_graph, random_bundle
from tests.makers.token_networks import ONE, attention

BLOCKS = 4
ADDED = ("proj", "down")  # the layers whose results are added to the residual stream


def _transformer() -> Graph:
    """Return patches, a token, positions, blocks of attention and two layers, and a norm."""
    operations: list[dict[str, object]] = [
        convolution("patch", [0], (8, 3), kernel=(2, 2), stride=(2, 2), pads=(0, 0, 0, 0)),
        {"op": "join_pixels", "inputs": (1,), "count": 1},
        {"op": "affine_map", "inputs": (2,), "sides": (1, 17)},
    ]
    for block in range(BLOCKS):
        x = len(operations)
        operations += [
            {"op": "layer_norm", "inputs": (x,), "eps": 1e-6},
            convolution(f"qkv{block}", [x + 1], (24, 8), **ONE),
            attention((x + 2, x + 2, x + 2)),
            convolution(f"proj{block}", [x + 3, x], (8, 8), **ONE),
            {"op": "layer_norm", "inputs": (x + 4,), "eps": 1e-6},
            convolution(f"up{block}", [x + 5], (16, 8), **ONE, activation="gelu"),
            convolution(f"down{block}", [x + 6, x + 4], (8, 16), **ONE),
        ]
    last = len(operations)
    return make_graph(*operations, {"op": "layer_norm", "inputs": (last,), "eps": 1e-6})


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """Make an 8-bit transformer, in which everything that can computes with integers, and blocks add little."""
    floats = without_ones(random_bundle(_transformer(), 8, density=1.0))
    small = {
        name: array.astype(np.float32) * np.float32(0.05)
        for name, array in floats.arrays.items()
        if name.startswith(tuple(f"kernels/{layer}" for layer in ADDED))
    }
    floats = Bundle(floats.manifest, floats.arrays | small)
    pictures = {domain: drawn.calibration for domain, drawn in drawn_images(floats, 8, 0).items()}
    coded = make_coder(floats, calibrate(floats, pictures, "largest"), "largest").coded(possible_integers(floats))
    adding = [op for n, op in enumerate(coded.manifest.graph) if n in coded.manifest.integers and len(op.inputs) == 2]
    assert len(adding) == 2 * BLOCKS
    return coded


def _coarse_model(onnx: Any, bundle: Bundle, domain: str) -> Any:  # noqa: ANN401  # onnx is untyped
    """Make codes of what a convolution adds before it is added, with twice the step of the sum."""
    model = domain_model(onnx, bundle, domain)
    graph, helper = model.graph, onnx.helper
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    steps = {node.input[0]: tensors[node.input[1]] for node in graph.node if node.op_type == "QuantizeLinear"}
    convs = {node.output[0] for node in graph.node if node.op_type == "Conv"}
    nodes = []
    for node in graph.node:
        added = node.input[0]
        if node.op_type == "Add" and added in convs and node.output[0] in steps:
            coding = [f"{added}.scale", f"{added}.zero"]
            numbers = (np.array(2 * steps[node.output[0]], np.float32), np.array(128, np.uint8))
            graph.initializer.extend(map(onnx.numpy_helper.from_array, numbers, coding))
            nodes.append(helper.make_node("QuantizeLinear", [added, *coding], [f"{added}.codes"]))
            nodes.append(helper.make_node("DequantizeLinear", [f"{added}.codes", *coding], [f"{added}.coarse"]))
            node.input[0] = f"{added}.coarse"
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


@pytest.mark.parametrize("is_single", [False, True])
def test_the_classes_and_nearly_the_logits_are_those_of_the_file(
    bundle: Bundle, tmp_path: Path, is_single: bool
) -> None:
    write_bundle(tmp_path / "m.prunus", bundle, "int8")
    exported = prunus.export(tmp_path / "m.prunus", tmp_path / "out", is_single)
    images = np.random.default_rng(1).standard_normal((300, 3, 8, 8)).astype(np.float32)
    for number, domain in enumerate(bundle.domains):
        feed = {"images": images} | ({"domain": np.array(number)} if is_single else {})
        found = onnxruntime.InferenceSession(str(exported[0 if is_single else number])).run(None, feed)[0]
        expected = NumpyEngine(bundle).logits(images, domain)
        assert (found.argmax(1) == expected.argmax(1)).mean() >= 0.99
        assert np.sqrt(np.mean((found - expected) ** 2)) <= 0.02 * expected.std(axis=0).mean()


def test_a_model_that_rounds_what_it_adds_is_not_kept(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bundle(tmp_path / "m.prunus", bundle, "int8")
    monkeypatch.setattr(files, "domain_model", _coarse_model)
    with pytest.raises(BundleError, match=r"computes codes\.\d+ of 'a' with .* times the error that is allowed"):
        prunus.export(tmp_path / "m.prunus", tmp_path / "out")
    monkeypatch.setattr(CodedCheck, "errors", lambda self: iter(()))  # logits alone are enough to see it
    with pytest.raises(
        BundleError, match=r"the logits of ONNX Runtime for 'a' differ by .* more than rounding explains"
    ):
        prunus.export(tmp_path / "m.prunus", tmp_path / "out")
    assert not (tmp_path / "out").exists()
