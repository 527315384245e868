"""An own network on own data is trained, continued, measured, pruned and served, from Python and by commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

import prunus
from prunus.backbone.own import registry
from prunus.backbone.own.registry import passing
from prunus.backbone.zoo import load_backbone
from prunus.cli.app import main
from prunus.errors import BackboneError, DataError, RecipeError, TrainingError, TrainingInterrupted
from prunus.parallel.processes import Processes
from prunus.run_folder import RunFolder
from prunus.training.observers import Observers
from prunus.training.run import open_run
from prunus.training.setup import RecipeTraining
from tests.conftest import write_domain
from tests.makers.live_service import live_model
from tests.makers.own_networks import CLASSES, LeafNet, install_package, leaf_net, leaf_recipe, pictures
from tests.makers.stopping import StopAt

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*larger than the dense network:prunus.errors.BudgetWarning"),  # it is tiny
]
SHADES = prunus.OwnDomain(train=pictures(20), test=pictures(6, 1), classes=CLASSES)
BIRDS = ("owl", "wren")


@pytest.fixture(autouse=True)
def unregistered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget what a test registers or imports."""
    monkeypatch.setattr(registry, "_REGISTERED", {})
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "leaf_package"]:
        del sys.modules[name]


def _flip(image: Tensor) -> Tensor:
    return image.flip(-1) if torch.rand(()) < 0.5 else image


def _command(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["prunus", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_a_passed_module_is_trained_measured_pruned_and_served_from_python(tmp_path: Path) -> None:
    birds = write_domain(tmp_path / "birds", BIRDS, train=6, size=(16, 16))
    recipe = leaf_recipe(domains=[str(birds)])  # the other domain is added by the argument
    module = leaf_net(3)
    own = {"backbone": module, "domains": {"shades": SHADES}}
    planned = prunus.plan(recipe, backbone=module, domains={"shades": SHADES})
    assert list(planned.domains) == ["birds", "shades"]
    run = prunus.train(recipe, tmp_path / "run", device="cpu", progress=False, transform=_flip, **own)  # type: ignore[arg-type]
    assert torch.equal(load_file(run / "backbone.safetensors")["conv1.weight"], module.conv1.weight)
    stored = json.loads((run / "recipe.json").read_text())
    assert [domain["path"] for domain in stored["domains"]] == [str(birds), "python:shades"]
    assert stored["training"]["augment"] == ["python"]

    results = prunus.evaluate(run, backbone=LeafNet(), domains={"shades": SHADES}, device="cpu")
    assert results.accuracies["shades"] == 1.0
    model = prunus.prune(run, tmp_path / "model.prunus", backbone=LeafNet())
    small = prunus.evaluate(model, domains={"shades": SHADES}, data=tmp_path)  # birds are found in the folder
    assert small.accuracies == results.accuracies
    (dark, light), _ = pictures(2, 1)
    with live_model(model) as live:
        for image, label in ((dark, "dark"), (light, "light")):
            content = tmp_path / "image.png"
            Image.fromarray(image).save(content)
            answer = live.predict(content.read_bytes(), domain="shades").json()
            assert answer["results"][0]["predictions"][0]["label"] == label


def test_a_run_of_own_things_continues_with_the_same_bits_if_they_are_passed_again(tmp_path: Path) -> None:
    own = {"backbone": leaf_net(3), "domains": {"shades": SHADES}, "transform": _flip}
    whole = prunus.train(leaf_recipe(), tmp_path / "whole", device="cpu", progress=False, **own)  # type: ignore[arg-type]
    with pytest.raises(TrainingInterrupted):
        prunus.train(leaf_recipe(), tmp_path / "part", [StopAt(3)], device="cpu", **own)  # type: ignore[arg-type]
    part = tmp_path / "part"
    with pytest.raises(DataError, match=r"come from Python, and were not passed; in Python pass domains=\{'shades'"):
        prunus.resume(part, backbone=LeafNet(), transform=_flip, progress=False)
    with pytest.raises(TrainingError, match=r"in Python pass transform=FUNCTION, the same one as when the run began"):
        prunus.resume(part, backbone=LeafNet(), domains={"shades": SHADES}, progress=False)
    other = prunus.OwnDomain(train=pictures(20, 5), test=pictures(6, 1), classes=CLASSES)
    with pytest.raises(TrainingError, match=r"the data of domain 'shades' has changed since this run began"):
        prunus.resume(part, backbone=LeafNet(), domains={"shades": other}, transform=_flip, progress=False)
    unregistered = r"trained with your own network 'leaf_net', which is not registered here"
    with pytest.raises(BackboneError, match=unregistered):
        prunus.prune(part, tmp_path / "model.prunus")
    with pytest.raises(BackboneError, match=unregistered):
        prunus.resume(part, domains={"shades": SHADES}, transform=_flip, progress=False)
    prunus.resume(part, device="cpu", progress=False, **own | {"backbone": LeafNet()})  # type: ignore[arg-type]
    ours, theirs = (load_file(RunFolder(run).checkpoint) for run in (part, whole))
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_commands_find_a_registered_network_and_open_what_python_has_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_domain(tmp_path / "birds", BIRDS, train=6, size=(16, 16))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'backbone = "leaf_net"\ndomains = ["{data}"]\nbudget = 0.5\n[training]\nepochs = 1\n')
    assert _command(monkeypatch, "plan", recipe) == 1
    assert "unknown backbone 'leaf_net'" in capsys.readouterr().err
    passed = prunus.train(
        leaf_recipe(domains=[str(data)]), tmp_path / "passed", device="cpu", progress=False, backbone=leaf_net(3)
    )
    assert _command(monkeypatch, "evaluate", passed) == 1
    assert "install a package that registers it (entry point 'leaf_net' of the group prunus.backbones)" in (
        capsys.readouterr().err
    )

    site = install_package(tmp_path / "site")
    monkeypatch.syspath_prepend(str(site))
    assert _command(monkeypatch, "train", recipe, "--out", tmp_path / "run") == 0
    for run in (passed, tmp_path / "run"):
        assert _command(monkeypatch, "evaluate", run) == 0
        assert _command(monkeypatch, "prune", run, "--out", run / "model.prunus") == 0
        assert _command(monkeypatch, "predict", run / "model.prunus", data / "test" / "owl" / "0.png") == 0
    capsys.readouterr()
    assert _command(monkeypatch, "bench", passed / "model.prunus", "--rounds", 2, "--json") == 0
    assert {speed["engine"] for speed in json.loads(capsys.readouterr().out)["speeds"]} > {"PyTorch dense"}

    # in new processes, as a user runs them
    env = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-m", "prunus", "prune", str(passed), "--out", str(tmp_path / "again.prunus")]
    subprocess.run(command, env=env, check=True, capture_output=True)
    assert (tmp_path / "again.prunus").read_bytes() == (passed / "model.prunus").read_bytes()
    served = [sys.executable, "-m", "prunus", "serve", str(tmp_path / "again.prunus"), "--port", "0"]
    with subprocess.Popen(served, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            address = service.stdout.readline().split(" at ")[1].split()[0]
            images = {"images": (data / "test" / "owl" / "0.png").read_bytes()}
            answer = httpx.post(f"{address}/predict/birds", files=images, timeout=60).json()
        finally:
            service.terminate()
    assert answer["results"][0]["predictions"][0]["label"] in BIRDS


def test_a_registered_network_whose_weights_change_is_opened_with_those_of_the_run(tmp_path: Path) -> None:
    data = write_domain(tmp_path / "birds", BIRDS, train=6, size=(16, 16))
    prunus.register_backbone("leaf_net", lambda: leaf_net(1), size=16, mean=(0.5,) * 3, std=(0.25,) * 3)
    run = prunus.train(leaf_recipe(domains=[str(data)]), tmp_path / "run", device="cpu", progress=False)
    model = prunus.prune(run, tmp_path / "model.prunus").read_bytes()
    prunus.register_backbone("leaf_net", lambda: leaf_net(2), size=16, mean=(0.5,) * 3, std=(0.25,) * 3)
    assert prunus.prune(run, tmp_path / "model.prunus").read_bytes() == model
    kept = (run / "backbone.safetensors").read_bytes()
    (run / "backbone.safetensors").write_bytes(kept[:-1] + bytes([kept[-1] ^ 1]))
    with pytest.raises(TrainingError, match="the backbone has changed since this run began; restore it"):
        prunus.prune(run, tmp_path / "model.prunus")
    (run / "backbone.safetensors").unlink()
    with pytest.raises(TrainingError, match="the backbone has changed since this run began; restore it"):
        prunus.prune(run, tmp_path / "model.prunus")
    (run / "backbone.safetensors").write_bytes(kept)
    prunus.register_backbone("leaf_net", lambda: LeafNet(width=9), size=16, mean=(0.5,) * 3, std=(0.25,) * 3)
    with pytest.raises(
        BackboneError, match=r"'conv1.weight' of leaf_net has the shape \(9, 3, 3, 3\), the weights file"
    ):
        prunus.prune(run, tmp_path / "model.prunus")


def test_methods_are_compared_on_an_own_network_and_data(tmp_path: Path) -> None:
    own = {"backbone": leaf_net(3), "domains": {"shades": SHADES}}
    recipe = leaf_recipe(training={"epochs": 1, "batch_size": 8})
    with pytest.raises(RecipeError, match="cannot be passed on to other processes; set jobs to 1"):
        prunus.compare(recipe, tmp_path / "c", ["exact"], [0.5], jobs=2, **own)  # type: ignore[arg-type]
    table = prunus.compare(recipe, tmp_path / "c", ["exact"], [0.5], device="cpu", progress=False, **own)  # type: ignore[arg-type]
    assert [row.method for row in table.rows] == ["exact", "feature", "finetune"]
    assert np.isfinite([row.mean_accuracy for row in table.rows]).all()


def test_a_module_of_timm_under_its_own_name_needs_no_registration(tmp_path: Path) -> None:
    data = write_domain(tmp_path / "birds", BIRDS, train=6, size=(32, 32))
    torch.manual_seed(7)
    module = timm.create_model("test_resnet", num_classes=0)  # stands for one that was trained elsewhere
    recipe = leaf_recipe(domains=[str(data)], backbone={"name": "timm/test_resnet", "size": 32})
    run = prunus.train(recipe, tmp_path / "run", device="cpu", progress=False, backbone=module)
    prunus.prune(run, tmp_path / "model.prunus")
    assert torch.equal(open_run(run, "cpu").backbone.network.conv1[0].weight, module.conv1[0].weight)  # type: ignore[index,union-attr]


@dataclass(frozen=True)
class _Second(Processes):
    """The second of two processes, which gets the weights that the first one has built."""

    rank: int = 1

    def any(self, flags: Sequence[bool]) -> list[bool]:
        return list(flags)

    def broadcast_(self, tensors: Sequence[Tensor]) -> None:
        for tensor, theirs in zip(tensors, leaf_net(0).state_dict().values(), strict=True):
            tensor.copy_(theirs)


def test_several_processes_train_the_network_of_the_first_one(tmp_path: Path) -> None:
    training = RecipeTraining(leaf_recipe(), RunFolder(tmp_path), Observers([]), False, _Second())
    with passing("leaf_net", leaf_net(1)):
        network = training._backbone().network
    assert torch.equal(network.get_parameter("conv1.weight"), leaf_net(0).conv1.weight)
    assert not RunFolder(tmp_path).backbone.exists()  # the first one keeps the weights


def test_a_registered_network_is_pretrained_and_drafted_by_its_name(tmp_path: Path) -> None:
    data = write_domain(tmp_path / "data" / "birds", BIRDS, train=6, size=(16, 16))
    prunus.register_backbone("leaf_net", lambda: leaf_net(1), size=16, mean=(0.5,) * 3, std=(0.25,) * 3)
    recipe = prunus.pretraining_recipe(data, "leaf_net", epochs=1, overrides=["training.batch_size=4"])
    weights = prunus.pretrain(recipe, tmp_path / "leaf.safetensors", device="cpu", progress=False)
    prunus.make_recipe(tmp_path / "data", tmp_path / "recipe.toml", backbone="leaf_net")
    drafted = prunus.load_recipe(tmp_path / "recipe.toml", [f"backbone.weights={str(weights)!r}"])
    assert drafted.backbone.name == "leaf_net"
    network = load_backbone(drafted.backbone).network
    assert not torch.equal(network.get_parameter("conv1.weight"), leaf_net(1).conv1.weight)
