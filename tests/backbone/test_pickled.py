"""Weights are found inside what training scripts save around them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

import prunus
from prunus.backbone.weights import fill, read_weights
from prunus.errors import BackboneError
from tests.makers.own_networks import Classifying, LeafNet, leaf_net

STATE = leaf_net(1).state_dict()


def _saved(content: object, path: Path, **options: bool) -> Path:
    torch.save(content, path, **options)
    return path


WRAPPED: dict[str, Mapping[str, object]] = {
    "plain": STATE,
    "lightning": {"state_dict": {f"model.{key}": value for key, value in STATE.items()}, "epoch": 3, "callbacks": {}},
    "data parallel": {f"module.{key}": value for key, value in STATE.items()},
    "compiled and parallel": {"model": {f"module._orig_mod.{key}": value for key, value in STATE.items()}},
    "nested": {"model": {"state_dict": {f"module.model.backbone.{key}": value for key, value in STATE.items()}}},
    "with an optimizer": {"model_state_dict": STATE, "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}}},
    "averaged": {"ema": {f"module.{key}": value for key, value in STATE.items()} | {"n_averaged": torch.tensor(5)}},
    "encoder": {f"encoder.{key}": value for key, value in STATE.items()} | {"head.weight": torch.zeros(2, 12)},
    "half": {key: value.half() if value.is_floating_point() else value for key, value in STATE.items()},
    "bfloat16": {key: value.bfloat16() if value.is_floating_point() else value for key, value in STATE.items()},
    "without counters": {key: value for key, value in STATE.items() if "num_batches" not in key},
    "with numbers": {**STATE, "epoch": 3, "best": 0.9, "name": "leaf_net"},
}


@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("is_new", [True, False])
def test_weights_are_found_in_a_checkpoint(kind: str, is_new: bool, tmp_path: Path) -> None:
    notes: list[str] = []
    path = _saved(WRAPPED[kind], tmp_path / "w.pth", _use_new_zipfile_serialization=is_new)
    network = LeafNet()
    fill(network, read_weights(path, notes.append), "leaf_net")
    near = {"half": 1e-3, "bfloat16": 1e-2}.get(kind, 0.0)
    for key, tensor in network.state_dict().items():
        assert tensor.dtype == STATE[key].dtype
        assert torch.allclose(tensor, STATE[key], rtol=near, atol=near), key
    assert notes == []


@pytest.mark.parametrize("key", ["state_dict_ema", "model_ema", "ema"])
def test_running_averages_are_preferred_and_that_is_said(key: str, tmp_path: Path) -> None:
    notes: list[str] = []
    path = _saved({"state_dict": leaf_net(2).state_dict(), key: STATE, "epoch": 4}, tmp_path / "w.pth")
    tensors = read_weights(path, notes.append)
    assert torch.equal(tensors["conv1.weight"], STATE["conv1.weight"])
    assert notes == [f"{path} holds several sets of weights; {key!r}, their running average, is used"]


@pytest.mark.parametrize("head", ["fc", "classifier", "head", "last_linear"])
def test_a_classifier_in_the_file_is_left_out(head: str, tmp_path: Path) -> None:
    content = {**STATE, f"{head}.weight": torch.zeros(1000, 12), f"{head}.bias": torch.zeros(1000)}
    network = LeafNet()
    fill(network, read_weights(_saved(content, tmp_path / "w.pth")), "leaf_net")
    assert torch.equal(network.conv2.weight, STATE["conv2.weight"])


def test_a_layer_of_the_network_is_no_classifier_whatever_its_name(tmp_path: Path) -> None:
    class Headed(LeafNet):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Sequential(nn.Conv2d(12, 2, 1))

    content = {**Headed().state_dict(), "head.1.weight": torch.zeros(3)}
    with pytest.raises(BackboneError, match=r"have 1 tensor that headed does not have, such as 'head.1.weight'"):
        fill(Headed(), content, "headed")


def test_nothing_is_copied_if_anything_is_wrong() -> None:
    network = leaf_net(3)
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    with pytest.raises(BackboneError, match="does not have, such as 'stray'"):
        fill(network, STATE | {"stray": torch.zeros(1)}, "leaf_net")
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())


def test_the_weights_of_a_larger_network_of_the_same_family_are_refused() -> None:
    from prunus.backbone.timm_networks import build_timm, timm_head

    small, large = (build_timm(f"timm/{name}") for name in ("resnet18", "resnet34"))
    assert timm_head("timm/resnet18") == {"fc.weight", "fc.bias"}
    with pytest.raises(
        BackboneError, match=r"^the weights have 80 tensors that resnet18 does not have, such as 'layer1.2"
    ):
        fill(small, large.state_dict(), "resnet18", timm_head("timm/resnet18"))
    with pytest.raises(BackboneError, match=r"^the weights lack 80 tensors that resnet34 needs, such as 'layer1.2"):
        fill(large, small.state_dict(), "resnet34", timm_head("timm/resnet34"))


def test_a_network_with_its_classifier_fills_one_without() -> None:
    whole = Classifying()
    network = LeafNet()
    fill(network, whole.state_dict(), "leaf_net")
    assert torch.equal(network.norm2.weight, whole.norm2.weight)


def test_nothing_else_in_the_package_unpickles_a_file() -> None:
    sources = {path: ast.parse(path.read_text()) for path in Path(prunus.__file__).parent.rglob("*.py")}
    calls = [
        (path.name, ast.unparse(node))
        for path, tree in sources.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and re.search(r"(torch|pickle)\.loads?$|Unpickler$|jit\.load$", ast.unparse(node.func))
    ]
    assert [name for name, _ in calls] == ["pickled.py"]
    assert "weights_only=True" in calls[0][1]
