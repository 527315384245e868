"""Wrong checkpoints and modules: each is one clear error of `prunus.plan`, before anything is trained."""

from __future__ import annotations

import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import prunus
from prunus.backbone.own.registry import passing
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.errors import BackboneError
from tests.makers.own_networks import SIZE, Classifying, LeafNet, leaf_net, leaf_recipe, pictures

Content = dict[str, Tensor]


def _plan(network: nn.Module, weights: Path | None = None) -> None:
    images, labels = pictures(8)
    shades = prunus.OwnDomain((images, labels), classes=("dark", "light"))
    backbone = {"name": "leaf_net", "size": SIZE, "mean": [0.5] * 3, "std": [0.25] * 3}
    recipe = leaf_recipe(backbone=backbone | ({"weights": str(weights)} if weights else {}))
    prunus.plan(recipe, backbone=network, domains={"shades": shades})


class _Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def _other_architecture(path: Path) -> None:
    torch.save(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).state_dict(), path)


def _without_a_tensor(path: Path) -> None:
    torch.save({key: tensor for key, tensor in leaf_net().state_dict().items() if key != "norm2.running_var"}, path)


def _with_another_tensor(path: Path) -> None:
    torch.save(leaf_net().state_dict() | {"conv3.weight": torch.zeros(2, 12, 3, 3)}, path)


def _wider(path: Path) -> None:
    torch.save(LeafNet(width=9).state_dict(), path)


def _with_code(path: Path) -> None:
    torch.save({"state_dict": leaf_net().state_dict(), "args": _Evil(path.with_name("executed"))}, path)


def _pickled_module(path: Path) -> None:
    torch.save(leaf_net(), path)


def _cut_short(path: Path) -> None:
    torch.save(leaf_net().state_dict(), path)
    path.write_bytes(path.read_bytes()[:-600])


def _old_and_cut_short(path: Path) -> None:
    torch.save(leaf_net().state_dict(), path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:-600])


def _text(path: Path) -> None:
    path.write_text("version https://git-lfs.github.com/spec/v1\n")


def _torchscript(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:  # what torch.jit.save writes
        file.writestr("net/code/__torch__.py", "class Net: pass")
        file.writestr("net/constants.pkl", b"\x80\x02).")
        file.writestr("net/data.pkl", b"\x80\x02}.")


def _zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", bytes(10**6))


def _deflated(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", np.random.default_rng(0).bytes(1000))  # which takes no less space so


def _optimizer_only(path: Path) -> None:
    optimizer = torch.optim.SGD(leaf_net().parameters(), lr=0.1, momentum=0.9)
    torch.save({"optimizer": optimizer.state_dict(), "epoch": 3}, path)


def _state_of_an_optimizer(path: Path) -> None:
    torch.save(torch.optim.SGD(leaf_net().parameters(), lr=0.1).state_dict(), path)


def _one_tensor(path: Path) -> None:
    torch.save(torch.zeros(3), path)


def _endless(path: Path) -> None:
    content: dict[str, object] = {}
    content["model"] = content
    torch.save(content, path)


def _diverged(path: Path) -> None:
    content = leaf_net().state_dict()
    content["conv2.weight"][0, 0, 0, 0] = torch.nan
    torch.save(content, path)


def _whole_numbers(path: Path) -> None:
    torch.save(leaf_net().state_dict() | {"conv1.weight": torch.zeros(8, 3, 3, 3, dtype=torch.int8)}, path)


def _without_content(path: Path) -> None:
    with torch.device("meta"):
        torch.save(LeafNet().state_dict(), path)


def _folder(path: Path) -> None:
    path.mkdir()


SAVE = r"save the weights with: torch.save\(model.state_dict\(\), 'weights.pth'\)"
CHECKPOINTS: dict[Callable[[Path], None], str] = {
    _other_architecture: r"the weights lack 10 tensors that leaf_net needs, such as 'conv1.weight', .*; "
    r"the weights have 6 tensors that leaf_net does not have, such as '0.weight'.*; is .*w.pth the file of leaf_net\?",
    _without_a_tensor: r"the weights lack 1 tensor that leaf_net needs, such as 'norm2.running_var'; is",
    _with_another_tensor: r"^the weights have 1 tensor that leaf_net does not have, such as 'conv3.weight'; is",
    _wider: r"^'conv1.weight' of leaf_net has the shape \(8, 3, 3, 3\), the weights file has \(9, 3, 3, 3\) "
    r"\(and 5 other tensors of another shape\); is",
    _with_code: rf"w.pth holds [\w.]+, an object of Python that could run code, and only tensors are read; {SAVE}",
    _pickled_module: rf"w.pth holds tests.makers.own_networks.LeafNet, an object of Python .*; {SAVE}",
    _cut_short: r"w.pth is damaged or cut short, so torch cannot read it; copy or download it again",
    _old_and_cut_short: r"w.pth is damaged or cut short, so torch cannot read it; copy or download it again",
    _text: r"w.pth is neither a file of torch.save nor .*; it begins with b'version https://git-lfs.'; ",
    _torchscript: rf"w.pth is a TorchScript archive, which holds code; {SAVE}",
    _zip_bomb: rf"w.pth is a compressed zip file, which torch.save does not write; {SAVE}",
    _deflated: rf"w.pth is a compressed zip file, which torch.save does not write; {SAVE}",
    _optimizer_only: rf"holds no weights of a network: its keys are optimizer, epoch, and none .*; {SAVE}",
    _state_of_an_optimizer: rf"holds no weights of a network: it holds the state of an optimizer; {SAVE}",
    _one_tensor: rf"holds no weights of a network: it holds a Tensor, not a dictionary of tensors; {SAVE}",
    _endless: rf"holds no weights of a network: its keys are model, and none of them holds weights; {SAVE}",
    _diverged: r"w.pth: NaN or infinite values in 1 tensor, such as 'conv2.weight'; use a checkpoint from before",
    _whole_numbers: r"1 tensor of the weights without plain numbers, such as 'conv1.weight' \(int8, strided, on",
    _without_content: r"10 tensors of the weights without plain numbers, .* \(float32, strided, on meta\); is",
    _folder: r"cannot read the weights .*w.pth: it is a folder, not a regular file",
}


@pytest.mark.parametrize("write", CHECKPOINTS, ids=lambda write: write.__name__)
def test_a_wrong_checkpoint_is_one_clear_error(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "w.pth")
    with pytest.raises(BackboneError, match=CHECKPOINTS[write]) as refused:
        _plan(LeafNet(), tmp_path / "w.pth")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "executed").exists()


def test_the_pickle_with_code_in_it_would_run_if_it_were_loaded_otherwise(tmp_path: Path) -> None:
    _with_code(tmp_path / "w.pth")
    torch.load(tmp_path / "w.pth", weights_only=False)
    assert (tmp_path / "executed").exists()


def test_a_pickle_is_not_read_from_a_file_called_safetensors(tmp_path: Path) -> None:
    _with_code(tmp_path / "w.safetensors")
    with pytest.raises(BackboneError, match="could run code"):
        _plan(LeafNet(), tmp_path / "w.safetensors")
    (tmp_path / "w.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}")
    with pytest.raises(BackboneError, match="is not a safetensors file, or it is damaged; copy or download it again"):
        _plan(LeafNet(), tmp_path / "w.safetensors")


class _With(LeafNet):
    """The network with another end, or with a layer replaced."""

    def __init__(self, end: Callable[[Tensor], object] | None = None, **layers: nn.Module) -> None:
        super().__init__()
        self.end = end or (lambda features: features)
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, images: Tensor) -> Tensor:
        return self.end(super().forward(images))  # type: ignore[return-value]  # some ends are wrong


class _Extra(nn.Module):
    def get_extra_state(self) -> object:
        return {"steps": 3}


class _Functional(LeafNet):
    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.conv2d(images, self.conv1.weight).mean((2, 3))


class _SharedNorm(LeafNet):
    def forward(self, images: Tensor) -> Tensor:
        return self.norm1(self.norm1(self.conv1(images))).mean((2, 3))  # type: ignore[no-any-return]


def _fail(features: Tensor) -> Tensor:
    raise KeyError("stage5")


def _old_weight_norm() -> nn.Module:
    with pytest.warns(FutureWarning):
        return _With(conv1=nn.utils.weight_norm(nn.Conv2d(3, 8, 3)))


NORM = nn.BatchNorm2d(12)
MODULES: dict[str, tuple[Callable[[], object], str]] = {
    "no convolution": (
        lambda: nn.Sequential(nn.Flatten(), nn.ReLU()),
        "backbone 'leaf_net' has no 2-D convolution or linear layer to switch; pass another network",
    ),
    "a tuple": (
        lambda: _With(lambda features: (features, features)),
        r"does not return one feature vector per image, .* but a tuple of 2; return the features alone",
    ),
    "a dictionary": (lambda: _With(lambda features: {"x": features}), r"but a dict of 1; return the features alone"),
    "a feature map": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3)),
        r"but a feature map of shape \(1, 4, 14, 14\); .* end yours with torch.nn.AdaptiveAvgPool2d\(1\)",
    ),
    "no batch": (lambda: _With(lambda features: features[0]), r"but a tensor of shape \(12,\)"),
    "a classifier": (
        Classifying,
        r"ends with the linear layer 'fc' \(12 -> 10\), its classifier, .*; put torch.nn.Identity\(\) in its place",
    ),
    "a classifier that is a convolution": (
        lambda: nn.Sequential(
            OrderedDict(
                features=nn.Conv2d(3, 8, 3),
                classifier=nn.Conv2d(8, 10, 1),
                pool=nn.AdaptiveAvgPool2d(1),
                flat=nn.Flatten(),
            )
        ),
        r"ends with the convolution 'classifier', a classifier by its name, .* or rename it if it belongs",
    ),
    "TorchScript": (
        lambda: torch.jit.script(LeafNet()),
        r"backbone 'leaf_net' is a TorchScript module, whose layers are fixed; pass the module it was made from",
    ),
    "convolutions that are not called": (
        _Functional,
        r"runs none of its convolutions and linear layers as layers, .*; call the layers themselves, not functions of",
    ),
    "weight norm": (
        lambda: _With(conv1=parametrizations.weight_norm(nn.Conv2d(3, 8, 3))),
        r"changes the weights of layer 'conv1' before each use, .*: torch.nn.utils.parametrize.remove_param",
    ),
    "spectral norm": (
        lambda: _With(conv2=parametrizations.spectral_norm(nn.Conv2d(8, 12, 3))),
        r"changes the weights of layer 'conv2' before each use",
    ),
    "old weight norm": (_old_weight_norm, r"of layer 'conv1' .*: torch.nn.utils.remove_weight_norm\(layer\)"),
    "a shared norm": (_SharedNorm, r"runs the norm 'norm1' 2 times in one pass, .*; give each place a norm of its own"),
    "one layer with two names": (
        lambda: _With(norm2=NORM, again=NORM),
        r"uses one layer or weight as both 'norm2' and 'again'; let each of them have its own",
    ),
    "a state that is no tensor": (
        lambda: _With(more=_Extra()),
        r"keeps 'more._extra_state', which is no tensor, in its st",
    ),
    "a lazy layer": (lambda: _With(conv1=nn.LazyConv2d(8, 3)), r"has lazy layers .*; run one image through it first"),
    "an error": (lambda: _With(_fail), r"the network does not accept images of 16 x 16 pixels: 'stage5'"),
    "a class": (lambda: LeafNet, r"backbone must be a torch.nn.Module, got <class"),
    "a name": (lambda: "resnet18", r"backbone must be a torch.nn.Module, got 'resnet18'"),
}


@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", MODULES)
def test_a_wrong_module_is_one_clear_error(kind: str) -> None:
    make, message = MODULES[kind]
    with pytest.raises(BackboneError, match=message) as refused:
        _plan(make())  # type: ignore[arg-type]  # some are no modules
    assert "\n" not in str(refused.value)


def test_a_linear_layer_before_an_identity_belongs_to_the_features() -> None:
    _plan(_With(nn.Sequential(nn.Linear(12, 6), nn.Identity())))  # not refused
    with pytest.raises(BackboneError, match="classifier"):
        _plan(_With(nn.Linear(12, 6)))


def test_the_right_weights_are_accepted_in_every_kind_of_file(tmp_path: Path) -> None:
    save_file(leaf_net().state_dict(), tmp_path / "w.safetensors")
    for file in ("w.pth", "w.pt", "w.bin"):
        torch.save(leaf_net().state_dict(), tmp_path / file)
    for file in ("w.safetensors", "w.pth", "w.pt", "w.bin"):
        choice = BackboneChoice(name="leaf_net", weights=str(tmp_path / file), size=SIZE)
        with passing("leaf_net", LeafNet()):
            found = load_backbone(choice).network.state_dict()
        assert all(torch.equal(found[name], tensor) for name, tensor in leaf_net().state_dict().items())


def test_a_plan_says_which_weights_were_chosen(tmp_path: Path) -> None:
    torch.save({"state_dict": leaf_net(1).state_dict(), "ema": leaf_net(2).state_dict()}, tmp_path / "w.pth")
    backbone = {"name": "leaf_net", "size": SIZE, "weights": str(tmp_path / "w.pth")}
    shades = prunus.OwnDomain(pictures(8), classes=("dark", "light"))
    notes = prunus.plan(leaf_recipe(backbone=backbone), backbone=LeafNet(), domains={"shades": shades}).notes
    assert notes[0].endswith("w.pth holds several sets of weights; 'ema', their running average, is used")
    assert notes[1].startswith("images for backbone 'leaf_net' are normalized as for ImageNet")


def test_a_network_that_depends_on_the_image_is_planned_with_a_note() -> None:
    images, labels = pictures(8)
    network = _With(lambda features: features if features.sum() > 0 else -features)
    planned = prunus.plan(
        leaf_recipe(), backbone=network, domains={"shades": prunus.OwnDomain((images, labels), classes=("a", "b"))}
    )
    assert any(note.startswith("no model file can hold this network") for note in planned.notes)
    assert any("without control flow that depends on images" in note for note in planned.notes)


def test_a_limit_in_bytes_needs_a_network_that_a_file_can_hold_and_no_run_is_named_before_there_is_one() -> None:
    network = _With(lambda features: features if features.sum() > 0 else -features)
    shades = prunus.OwnDomain(pictures(8), classes=("dark", "light"))
    with pytest.raises(prunus.PrunusError) as refused:
        prunus.plan(leaf_recipe(budget={"bytes": 10**6}), backbone=network, domains={"shades": shades})
    assert str(refused.value).startswith(
        "budget.bytes needs a network that a model file can hold, but the network cannot"
    )
    assert str(refused.value).endswith("set budget.kernels instead, or choose another network")
