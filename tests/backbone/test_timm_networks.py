"""Networks of timm: unknown names, missing weights, settings."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prunus.backbone import timm_networks
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.errors import BackboneError, UnknownNameError


def test_without_the_hub_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_args: object, **_kwargs: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", unreachable)
    with pytest.raises(BackboneError, match=r"weights of timm/resnet18 .*: no route to host; name a safetensors file"):
        timm_networks.fetch_timm_weights("timm/resnet18")


def test_a_timm_network_takes_its_weights_from_a_file_with_its_classifier_in_it(tmp_path: Path) -> None:
    import timm

    original = timm.create_model("resnet10t", pretrained=False)
    save_file(original.state_dict(), tmp_path / "w.safetensors")
    backbone = load_backbone(BackboneChoice(name="timm/resnet10t", weights=str(tmp_path / "w.safetensors"), size=64))
    ours = backbone.network.state_dict()
    assert all(torch.equal(tensor, original.state_dict()[name]) for name, tensor in ours.items())
    assert backbone.preprocess.mean == pytest.approx((0.485, 0.456, 0.406))


def test_a_timm_network_says_what_input_it_expects() -> None:
    size, mean, std = timm_networks.timm_preprocess("timm/resnet18")
    assert size == 224
    assert mean == pytest.approx((0.485, 0.456, 0.406))
    assert std == pytest.approx((0.229, 0.224, 0.225))


def test_a_network_without_weights_on_the_hub_says_so() -> None:
    with pytest.raises(BackboneError, match=r"timm has no hub weights for timm/cspresnet50d; name a safetensors file"):
        timm_networks.fetch_timm_weights("timm/cspresnet50d")


def _vit(size: int, weights: str = "random") -> torch.nn.Module:
    return load_backbone(BackboneChoice(name="timm/test_vit", weights=weights, size=size)).network


def test_position_embeddings_are_resized_once_when_a_network_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    state = _vit(160).state_dict()
    rows = torch.arange(10.0)[:, None].expand(10, 10).reshape(100, 1)  # the row of every patch
    assert state["pos_embed"].shape[1] == 101
    state["pos_embed"] = torch.cat([torch.zeros(1, 1), rows]).expand(101, 64)[None].contiguous()
    save_file(state, file)
    small = _vit(80, str(file)).state_dict()
    pos_embed = small.pop("pos_embed")
    assert pos_embed.shape == (1, 26, 64)
    means = pos_embed[0, 1:, 0].reshape(5, 5)
    assert torch.allclose(means[2], torch.full((5,), 4.5), atol=1e-3)  # the middle stays the middle
    assert bool((means.diff(dim=0) > 1.5).all())
    assert all(torch.equal(tensor, state[name]) for name, tensor in small.items())


@pytest.mark.parametrize(
    ("name", "size", "sizes"), [("timm/test_vit", 8, "16, 160"), ("timm/xcit_nano_12_p16_224", 50, "48, 64, 224")]
)
def test_a_size_that_a_network_does_not_accept_is_refused_with_sizes_that_work(
    name: str, size: int, sizes: str
) -> None:
    with pytest.raises(BackboneError) as refused:  # one fails when it runs, the other when it is built
        load_backbone(BackboneChoice(name=name, weights="random", size=size))
    message = str(refused.value)
    advice = f"set backbone.size to one that works, such as {sizes} (it says: "
    assert message.startswith(f"{name} does not accept images of {size} x {size} pixels; {advice}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("timm/deit_tiny", "did you mean 'timm/deit_tiny_patch16_224'? for example: timm/deit_tiny_patch16_224"),
        ("timm/vit", "'timm/vit'; for example: timm/vit_"),
        ("timm/deit_tyny", "did you mean 'timm/deit_tiny_patch16_224'? for example: timm/deit_tiny_patch16_224, "),
        ("timm/swin_tiny_pach4", "did you mean 'timm/swin_tiny_patch4_window7_224'?"),
        ("timm/nonsense", "'timm/nonsense'; for example: timm/resnet50, timm/deit_tiny_patch16_224"),
    ],
)
def test_examples_are_not_called_all_known_networks(name: str, expected: str) -> None:
    with pytest.raises(UnknownNameError) as refused:
        timm_networks.check_timm_name(name)
    assert expected in str(refused.value)
    assert "known:" not in str(refused.value).replace("unknown", "")


def test_an_unknown_timm_network_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown timm network 'timm/resnet5O'.*timm/resnet50"):
        timm_networks.build_timm("timm/resnet5O")
