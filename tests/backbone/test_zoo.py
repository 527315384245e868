"""Backbones: bundled, from timm, from a file, and what is said when one cannot be had."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from prunus.backbone import timm_networks
from prunus.backbone.standardized import bake_standardized
from prunus.backbone.weights import fill, fingerprint, read_weights
from prunus.backbone.wrn import wrn14_2
from prunus.backbone.zoo import ZOO, ZooEntry, load_backbone
from prunus.config import BackboneChoice, DomainChoice
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.errors import BackboneError, UnknownNameError
from prunus.masks.layout import switch_layout
from prunus.samples import bundled

STUDY = Path(__file__).parents[3] / "shared" / "study_domains"


@pytest.mark.parametrize(
    ("name", "blocks", "widths"), [("wrn28_4", 4, [32, 64, 128, 256]), ("wrn14_2", 2, [16, 32, 64, 128])]
)
def test_bundled_networks_have_the_size_their_formula_gives(name: str, blocks: int, widths: list[int]) -> None:
    convs = [m for m in ZOO[name].build().modules() if isinstance(m, nn.Conv2d)]
    pairs = pairwise(widths)
    kernels = 3 * widths[0] + sum(old * new + (2 * blocks - 1) * new * new for old, new in pairs)
    assert sum(conv.weight.shape[0] * conv.weight.shape[1] for conv in convs) == kernels
    assert sum(conv.weight.numel() for conv in convs) == 9 * kernels
    assert name != "wrn28_4" or (round(kernels / 1e6, 3), round(9 * kernels / 1e6, 2)) == (0.645, 5.81)


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


def test_without_the_hub_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_args: object, **_kwargs: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(BackboneError, match=r"cannot be fetched: no route to host; name a safetensors file"):
        timm_networks.fetch_timm_weights("timm/resnet18")


def test_a_timm_network_takes_its_weights_from_a_file_with_its_classifier_in_it(tmp_path: Path) -> None:
    import timm

    original = timm.create_model("resnet10t", pretrained=False)
    save_file(original.state_dict(), tmp_path / "w.safetensors")
    backbone = load_backbone(BackboneChoice(name="timm/resnet10t", weights=str(tmp_path / "w.safetensors"), size=64))
    ours = backbone.network.state_dict()
    assert all(torch.equal(tensor, original.state_dict()[name]) for name, tensor in ours.items())
    assert backbone.preprocess.mean == pytest.approx((0.485, 0.456, 0.406))


def test_a_weights_file_of_another_network_is_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(BackboneError, match=r"lack 69 tensors that wrn14_2 needs, 'stem.conv.weight' the first"):
        load_backbone(BackboneChoice(name="wrn14_2", weights=str(tmp_path / "w.safetensors")))
    tensors = read_weights(bundled("backbones") / ZOO["wrn14_2"].file) | {"stem.conv.weight": torch.zeros(1)}
    with pytest.raises(BackboneError, match=r"has the shape \(16, 3, 3, 3\), the weights file has \(1,\)"):
        fill(wrn14_2(), tensors, "wrn14_2")


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    torch.save(wrn14_2().state_dict(), tmp_path / "w.pth")
    with pytest.raises(BackboneError, match="never loaded"):
        load_backbone(BackboneChoice(name="wrn14_2", weights=str(tmp_path / "w.pth")))
    with pytest.raises(BackboneError, match="No such file"):
        load_backbone(BackboneChoice(name="wrn14_2", weights=str(tmp_path / "none.safetensors")))


def test_an_input_too_small_for_the_network_is_refused() -> None:
    with pytest.raises(BackboneError, match="does not take images of 8 x 8 pixels"):
        load_backbone(BackboneChoice(name="timm/inception_v3", weights="random", size=8))


def test_the_fingerprint_changes_with_any_weight() -> None:
    network = wrn14_2()
    before = fingerprint(network)
    with torch.no_grad():
        next(network.parameters())[0, 0, 0, 0] += 1
    assert fingerprint(network) != before


@pytest.mark.parametrize("name", ["nf_resnet26", "resnetv2_50x1_bit", "nfnet_l0"])
def test_standardized_convolutions_become_plain_ones_that_compute_the_same(name: str) -> None:
    import timm

    torch.manual_seed(0)
    network = timm.create_model(name, pretrained=False, num_classes=0).eval()
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = network(images)
        found = bake_standardized(network)(images)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert switch_layout(network).num_switches > 0
