"""The card of a weights file is written with it, read back and refused if it is damaged."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from prunus.backbone.card import KEY, read_card, write_backbone
from prunus.backbone.zoo import ZOO
from prunus.errors import BackboneError
from prunus.samples import bundled
from tests.makers.backbone_cards import tiny_card


def test_tensors_card_and_recipe_are_read_back(tmp_path: Path) -> None:
    file = tmp_path / "new" / "w.safetensors"
    weight = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    write_backbone(file, {"conv.weight": weight}, tiny_card(), '{"seed": 7}')
    assert read_card(file) == tiny_card()
    tensors = load_file(file)
    assert list(tensors) == ["conv.weight"]
    assert torch.equal(tensors["conv.weight"], weight)
    with safe_open(file, framework="pt") as content:
        assert content.metadata()["recipe"] == '{"seed": 7}'


def test_other_weights_files_have_no_card(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "plain.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign.safetensors", {"mean": "0.5"})
    assert read_card(tmp_path / "plain.safetensors") is None
    assert read_card(tmp_path / "foreign.safetensors") is None
    assert read_card(bundled("backbones") / ZOO["wrn14_2"].file) is None


def test_what_a_later_version_adds_is_ignored(tmp_path: Path) -> None:
    content = tiny_card().model_dump(mode="json") | {"flavour": "sour"}
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors", {KEY: json.dumps(content)})
    assert read_card(tmp_path / "w.safetensors") == tiny_card()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "metadata of .*w.safetensors is damaged: .*JSON"),
        ("{}", "is damaged: name: Field required"),
        (json.dumps(tiny_card().model_dump(mode="json") | {"accuracy": 48.4}), "is damaged: accuracy: .*less than"),
        (
            json.dumps(tiny_card().model_dump(mode="json") | {"format_version": 2, "prunus": "9.9"}),
            r"has backbone format 2, but this version of prunus reads format 1; use the version that wrote it \(9.9\)",
        ),
    ],
)
def test_a_damaged_or_later_card_is_refused(tmp_path: Path, text: str, message: str) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors", {KEY: text})
    with pytest.raises(BackboneError, match=message):
        read_card(tmp_path / "w.safetensors")


@pytest.mark.parametrize("size", [0, 7, 40, 500])
def test_a_file_that_was_cut_short_is_refused(tmp_path: Path, size: int) -> None:
    file = tmp_path / "w.safetensors"
    write_backbone(file, {"a": torch.zeros(100)}, tiny_card(), "{}")
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(BackboneError, match="cannot read the weights"):
        read_card(file)
    with pytest.raises(BackboneError, match=r"cannot read the weights .*none"):
        read_card(tmp_path / "none.safetensors")
