"""Own networks are found by name: registered here, or by an installed package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import prunus
from prunus.backbone.own import registry
from prunus.backbone.own.registry import BUNDLED, find_own, own_names, passing, register_backbone
from prunus.backbone.weights import fingerprint, write_weights
from prunus.backbone.zoo import ZOO, load_backbone
from prunus.config import BackboneChoice
from prunus.errors import BackboneError, UnknownNameError
from tests.makers.own_networks import LeafNet, install_package, leaf_net

HALF, QUARTER = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)


@pytest.fixture(autouse=True)
def unregistered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a test registers or imports."""
    monkeypatch.setattr(registry, "_REGISTERED", {})
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "leaf_package"]:
        del sys.modules[name]


def test_a_registered_network_is_loaded_by_its_name_as_it_is_built() -> None:
    register_backbone("leaf_net", leaf_net, size=16, mean=HALF, std=QUARTER)
    backbone = load_backbone(BackboneChoice(name="leaf_net"))
    assert (backbone.preprocess.size, backbone.preprocess.resize) == (16, 18)
    assert (backbone.preprocess.mean, backbone.preprocess.std) == (HALF, QUARTER)
    assert torch.equal(backbone.network.get_parameter("conv1.weight"), leaf_net().conv1.weight)
    assert not backbone.has_file
    assert backbone.notes == ()
    larger = load_backbone(BackboneChoice(name="leaf_net", size=24, mean=(0, 0, 0), std=(1, 1, 1))).preprocess
    assert (larger.size, larger.mean, larger.std) == (24, (0, 0, 0), (1, 1, 1))


def test_the_weights_of_a_registered_network_are_those_of_its_file_or_of_the_recipe(tmp_path: Path) -> None:
    save_file(leaf_net(1).state_dict(), tmp_path / "own.safetensors")
    torch.save({"state_dict": leaf_net(2).state_dict()}, tmp_path / "other.pth")
    register_backbone("leaf_net", leaf_net, size=16, mean=HALF, std=QUARTER, weights=tmp_path / "own.safetensors")
    for seed, weights in ((0, "random"), (1, "pretrained"), (2, str(tmp_path / "other.pth"))):
        backbone = load_backbone(BackboneChoice(name="leaf_net", weights=weights))
        assert torch.equal(backbone.network.get_parameter("conv2.weight"), leaf_net(seed).conv2.weight)
        assert backbone.has_file == (weights != "random")


def test_kept_weights_restore_a_network_that_standardized_its_own(tmp_path: Path) -> None:
    from timm.layers.std_conv import ScaledStdConv2d

    torch.manual_seed(0)
    module = nn.Sequential(ScaledStdConv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with passing("standard", module):
        choice = BackboneChoice(name="standard", size=8, mean=HALF, std=QUARTER)
        first = load_backbone(choice)
        write_weights(tmp_path / "kept.safetensors", first.network)
        again = load_backbone(choice, tmp_path / "kept.safetensors")
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(first.network(images), again.network(images))
        assert torch.allclose(first.network(images), module(images), atol=1e-6)
    assert fingerprint(first.network) == fingerprint(again.network)
    assert not again.has_file
    register_backbone("standard", lambda: module, size=8, mean=HALF, std=QUARTER, weights="elsewhere.safetensors")
    assert not load_backbone(choice, tmp_path / "kept.safetensors").has_file  # the named file is not needed


def test_a_name_can_be_registered_again() -> None:
    for size in (16, 24):
        register_backbone("leaf_net", LeafNet, size=size, mean=HALF, std=QUARTER)
    assert load_backbone(BackboneChoice(name="leaf_net")).preprocess.size == 24


def test_the_users_module_is_not_changed() -> None:
    module = leaf_net().double().train()
    with passing("leaf_net", module):
        backbone = load_backbone(BackboneChoice(name="leaf_net", size=16))
    assert backbone.network is not module
    assert module.conv1.weight.dtype == torch.float64
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert backbone.notes[0].startswith("images for backbone 'leaf_net' are normalized as for ImageNet;")


def test_a_passed_module_holds_for_its_name_and_its_call_only() -> None:
    with passing("leaf_net", leaf_net()):
        assert find_own("wrn14_2") is None
        assert find_own("leaf_net") is not None
        with pytest.raises(BackboneError, match=r"input size of backbone 'leaf_net' is unknown; set backbone.size"):
            load_backbone(BackboneChoice(name="leaf_net"))
    assert find_own("leaf_net") is None
    with passing(None, leaf_net()):
        assert find_own("anything") is not None


def test_a_module_of_timm_brings_its_own_preprocessing() -> None:
    import timm

    module = timm.create_model("test_resnet", pretrained=False, num_classes=0)
    with passing("mine", module):
        preprocess = load_backbone(BackboneChoice(name="mine", size=32)).preprocess
    assert (preprocess.mean, preprocess.std) == (HALF, HALF)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "wrn14_2"}, "the name 'wrn14_2' is taken by Prunus itself; choose another name"),
        ({"name": "timm/mine"}, "the name 'timm/mine' is taken"),
        ({"name": "mine.prunus"}, "the name 'mine.prunus' is taken"),
        ({"name": ""}, "the name of a backbone must be a short text, got ''; prunus.register_backbone"),
        ({"name": "a\nb"}, "the name of a backbone must be a short text"),
        ({"build": leaf_net()}, None),
        ({"build": 3}, "build must be a function that returns the network, got 3; for example: prunus.register"),
        ({"size": 0}, "size must be the input pixels of 'leaf_net', such as 224; got 0"),
        ({"size": 2.5}, "size must be the input pixels"),
        ({"mean": 0.5}, "mean must be three numbers, got 0.5"),
        ({"std": (1, 0, 1)}, r"std must be three positive numbers, got \(1, 0, 1\)"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], message: str | None) -> None:
    settings: dict[str, object] = {"name": "leaf_net", "build": LeafNet, "size": 16, "mean": HALF, "std": QUARTER}
    settings |= arguments
    if message is None:  # a module is callable, but returns no module when it is called without an image
        register_backbone(**settings)  # type: ignore[arg-type]
        message = r"the function that builds backbone 'leaf_net' failed \(TypeError: .*forward"
        with pytest.raises(BackboneError, match=message):
            load_backbone(BackboneChoice(name="leaf_net"))
        return
    with pytest.raises(BackboneError, match=message):
        register_backbone(**settings)  # type: ignore[arg-type]


def test_a_function_that_returns_something_else_is_refused() -> None:
    register_backbone("leaf_net", lambda: LeafNet, size=16, mean=HALF, std=QUARTER)  # type: ignore[arg-type,return-value]
    with pytest.raises(
        BackboneError, match=r"that builds backbone 'leaf_net' must return a torch.nn.Module, got <class"
    ):
        load_backbone(BackboneChoice(name="leaf_net"))


def test_an_installed_package_is_imported_when_its_network_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(install_package(tmp_path / "site")))
    assert own_names() == ["leaf_net"]
    with pytest.raises(UnknownNameError, match="did you mean 'leaf_net'"):
        load_backbone(BackboneChoice(name="leaf_nat"))
    assert "leaf_package" not in sys.modules
    assert load_backbone(BackboneChoice(name="leaf_net")).probe.num_features == 12
    row = prunus.zoo()[-1]
    assert (row.name, row.input_size, row.kernel_weights, row.weights) == (
        "leaf_net",
        16,
        9 * 120,
        "registered, as built",
    )
    assert [row.name for row in prunus.zoo()] == [*(row.name for row in prunus.zoo(list(ZOO))), "leaf_net"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "import no_such_package",
            r"leaf_package.network of leaf-package, which cannot be imported \(ModuleNotFoundErr",
        ),
        ("x = 1", r"of the group prunus.backbones, but does not register 'leaf_net'; call there: prunus.register_back"),
    ],
)
def test_a_package_that_does_not_work_is_named_and_hides_no_other(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(install_package(tmp_path / "site", code)))
    with pytest.raises(BackboneError, match=message):
        load_backbone(BackboneChoice(name="leaf_net"))
    with pytest.warns(UserWarning, match=r"the registered backbone 'leaf_net' cannot be used: .*leaf_package"):
        assert {row.name for row in prunus.zoo()} == set(ZOO)


def test_two_packages_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("leaf-package", "tree-package"):
        folder = install_package(tmp_path / package)
        info = folder / "leaf_package-1.0.dist-info"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        info.rename(folder / f"{package.replace('-', '_')}-1.0.dist-info")
        monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(BackboneError, match="'leaf_net' is registered by leaf-package and tree-package; uninstall one"):
        load_backbone(BackboneChoice(name="leaf_net"))


def test_the_names_that_are_taken_are_those_of_the_zoo() -> None:
    assert set(BUNDLED) == set(ZOO)
