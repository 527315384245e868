"""The bundled backbones, and what is said when a backbone is unknown."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from prunus.backbone.card import write_backbone
from prunus.backbone.weights import read_weights
from prunus.backbone.wrn import wrn14_2
from prunus.backbone.zoo import ZOO, ZooEntry, load_backbone
from prunus.config import BackboneChoice, DomainChoice
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.errors import BackboneError, UnknownNameError
from prunus.samples import bundled
from tests.makers.backbone_cards import tiny_card

STUDY = Path(__file__).parents[3] / "shared" / "study_domains"


@pytest.mark.parametrize("name", ZOO)
def test_bundled_networks_take_their_input_and_give_features(name: str) -> None:
    backbone = load_backbone(BackboneChoice(name=name))
    size = ZOO[name].size
    features = backbone.network.eval()(torch.zeros(2, 3, size, size))
    assert features.shape == (2, backbone.probe.num_features)
    assert backbone.preprocess.resize == size * 9 // 8


@pytest.mark.skipif(not STUDY.exists(), reason="the study domains are not here")
@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_bundled_weights_classify_their_own_source_domain(name: str) -> None:
    backbone = load_backbone(BackboneChoice(name=name, resize=ZOO[name].size))
    tensors = read_weights(bundled("backbones") / ZOO[name].file)
    domain = open_domain(DomainChoice(name="tiny", path=str(STUDY / "tiny_imagenet.zip")))
    images = load_images(domain, "test", backbone.preprocess)
    with torch.inference_mode():
        inputs = torch.from_numpy(backbone.preprocess.normalize(images.images))
        features = torch.cat([backbone.network.eval()(part) for part in torch.split(inputs, 250)])
        logits = features @ tensors["head.weight"].float().T + tensors["head.bias"].float()
    # the head's order of classes is not recorded, so every class is given the answer it gets most often
    table = np.zeros((200, 200), dtype=np.int64)
    np.add.at(table, (images.labels, logits.argmax(1).numpy()), 1)
    assert table.max(1).sum() / table.sum() == pytest.approx(ZOO[name].top1, abs=0.06)


def test_adding_a_backbone_is_one_function_and_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    monkeypatch.setitem(ZOO, "tiny", ZooEntry(tiny, "none", 16, 0.5, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "nothing"))
    backbone = load_backbone(BackboneChoice(name="tiny", weights="random"))
    assert backbone.probe.num_features == 5
    assert backbone.probe.positions == {"0": 14 * 14}


def test_an_unknown_backbone_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'wrn28_4'"):
        load_backbone(BackboneChoice(name="wrn28_5"))
    with pytest.raises(UnknownNameError, match="timm/resnet50"):
        load_backbone(BackboneChoice(name="timm/resnet5O"))


def test_a_resize_below_the_input_size_of_the_network_is_refused() -> None:
    with pytest.raises(BackboneError, match=r"backbone\.resize must be at least the input size of wrn14_2, 32; got 20"):
        load_backbone(BackboneChoice(name="wrn14_2", weights="random", resize=20))


def test_a_weights_file_with_a_card_brings_its_own_preprocessing(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    write_backbone(file, wrn14_2().state_dict(), tiny_card(size=24, resize=25), "{}")
    assert load_backbone(BackboneChoice(name="wrn14_2", weights=str(file))).preprocess == tiny_card().preprocess
    larger = load_backbone(BackboneChoice(name="wrn14_2", weights=str(file), size=48)).preprocess
    assert (larger.size, larger.resize, larger.mean) == (48, 54, (0.1, 0.2, 0.3))
    assert load_backbone(BackboneChoice(name="wrn14_2", weights=str(file), resize=30)).preprocess.resize == 30
    save_file(wrn14_2().state_dict(), file)  # without a card: as in the table
    plain = load_backbone(BackboneChoice(name="wrn14_2", weights=str(file))).preprocess
    assert (plain.size, plain.resize, plain.mean) == (32, 36, ZOO["wrn14_2"].mean)
