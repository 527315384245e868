"""Weights files are copied whole or refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prunus.backbone.weights import fill, fingerprint, read_weights
from prunus.backbone.wrn import wrn14_2
from prunus.backbone.zoo import ZOO, load_backbone
from prunus.config import BackboneChoice
from prunus.errors import BackboneError
from prunus.samples import bundled


def test_a_weights_file_of_another_network_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(BackboneError, match=r"lack 69 tensors that wrn14_2 needs, such as 'stem.conv.weight'"):
        load_backbone(BackboneChoice(name="wrn14_2", weights=str(tmp_path / "w.safetensors")))
    tensors = read_weights(bundled("backbones") / ZOO["wrn14_2"].file) | {"stem.conv.weight": torch.zeros(1)}
    with pytest.raises(BackboneError, match=r"has the shape \(16, 3, 3, 3\), the weights file has \(1,\)"):
        fill(wrn14_2(), tensors, "wrn14_2")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"cannot read the weights .*none.safetensors: No such file"):
        load_backbone(BackboneChoice(name="wrn14_2", weights=str(tmp_path / "none.safetensors")))


def test_the_fingerprint_changes_with_any_weight() -> None:
    network = wrn14_2()
    before = fingerprint(network)
    with torch.no_grad():
        next(network.parameters())[0, 0, 0, 0] += 1
    assert fingerprint(network) != before
