"""A backbone that is trained here serves as a backbone: same features, own preprocessing, same bits after a resume."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typing_extensions import override

import prunus
from prunus.backbone.card import read_card
from prunus.backbone.wrn import wrn14_2
from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice, Recipe
from prunus.data.layouts import open_domain
from prunus.data.loading import load_images
from prunus.errors import BackboneError, DataError, RecipeError, TrainingError, TrainingInterrupted
from prunus.pretraining.backbone_file import images_per_second
from prunus.pretraining.recipe import pretraining_recipe
from prunus.recipes import parse_recipe
from prunus.run_folder import EpochReport, RunFolder
from prunus.training.observers import Observer
from prunus.training.run import open_run
from tests.conftest import write_domain
from tests.makers.stopping import StopAt

pretrain = partial(prunus.pretrain, device="cpu")  # bit for bit is a promise for CPUs only
QUICK = (
    "training.batch_size=8",
    "training.lr=0.02",
    "training.checkpoint_seconds=1000",
    "seed=3",
)


class _Killed(Exception):  # noqa: N818  # not an error of the program
    pass


class _KillAt(Observer):
    """Ends a run after a step, without time to save it."""

    def __init__(self, step: int) -> None:
        self._step = step

    @override
    def stepped(self, step: int, epoch: int) -> None:
        if step == self._step:
            raise _Killed


def _recipe(folder: Path, epochs: int = 2) -> Recipe:
    return pretraining_recipe(folder, "wrn14_2", 16, epochs, QUICK)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a domain of two classes whose images have noise of their own."""
    return write_domain(tmp_path_factory.mktemp("data") / "leaves", ("elm", "oak"), train=16, validation=4)


@pytest.fixture(scope="module")
def backbone(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a network that was trained for 8 steps."""
    return pretrain(_recipe(source), tmp_path_factory.mktemp("out") / "leafy.safetensors", use_cache=False)


@pytest.mark.slow
def test_the_file_says_what_the_network_was_trained_on(backbone: Path, source: Path) -> None:
    card = read_card(backbone)
    assert card is not None
    assert (card.name, card.trained_on, card.classes) == ("wrn14_2", "leaves", ("elm", "oak"))
    assert (card.images, card.epochs) == (32, 2)
    (choice,) = _recipe(source).domains
    domain = open_domain(choice)
    images = load_images(domain, "train", card.preprocess).images / 255
    assert (card.preprocess.size, card.preprocess.resize) == (16, 18)
    assert card.preprocess.mean == pytest.approx(images.mean((0, 2, 3)), abs=1e-5)
    assert card.preprocess.std == pytest.approx(images.std((0, 2, 3)), abs=1e-5)
    assert card.images_per_second is not None
    assert card.images_per_second > 0


@pytest.mark.slow
def test_the_accuracy_is_that_of_the_file_itself(backbone: Path, source: Path) -> None:
    card = read_card(backbone)
    assert card is not None
    tensors = load_file(backbone)
    head = {name: tensors.pop(f"head.{name}") for name in ("weight", "bias")}
    network = wrn14_2()
    network.load_state_dict(tensors)  # every tensor and no other
    (choice,) = _recipe(source).domains
    validation = load_images(open_domain(choice), "validation", card.preprocess)
    centre = validation.images[:, :, 1:17, 1:17] / 255
    mean, std = (np.reshape(value, (3, 1, 1)) for value in (card.preprocess.mean, card.preprocess.std))
    with torch.inference_mode():
        features = network.eval()(torch.from_numpy((centre - mean) / std).float())
        answers = (features @ head["weight"].T + head["bias"]).argmax(1).numpy()
    assert card.accuracy == pytest.approx((answers == validation.labels).mean())
    assert len(validation) == 8


@pytest.mark.slow
def test_the_file_serves_as_the_backbone_of_a_training_run(
    backbone: Path, tmp_path: Path, make_domain: Callable[..., Path]
) -> None:
    content = {
        "preset": "paper",
        "backbone": {"name": "wrn14_2", "weights": str(backbone)},
        "domains": [str(make_domain("birds"))],
        "method": "feature",
        "training": {"epochs": 1, "batch_size": 4},
    }
    run = open_run(prunus.train(parse_recipe(content), tmp_path / "run", device="cpu"), "cpu")
    card = read_card(backbone)
    assert card is not None
    assert run.preprocess["birds"] == card.preprocess
    network = wrn14_2()
    missing = network.load_state_dict(load_file(backbone), strict=False)
    assert (missing.missing_keys, missing.unexpected_keys) == ([], ["head.bias", "head.weight"])
    random = load_backbone(BackboneChoice(name="wrn14_2", weights="random")).network.eval()
    images = torch.randn(5, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = network.eval()(images)
        assert torch.equal(run.net.network(images), expected)
        assert not torch.allclose(random(images), expected, atol=0.1)


@pytest.mark.slow
def test_an_interrupted_pretraining_continues_and_ends_with_the_same_bits(
    backbone: Path, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "leafy.safetensors"
    with pytest.raises(TrainingInterrupted, match=r"saved at step 3 of 8 in .*leafy; the same command continues"):
        pretrain(_recipe(source), out, [StopAt(3)], use_cache=False)
    assert not out.exists()
    pretrain(_recipe(source), out, use_cache=False)
    ours, theirs = load_file(out), load_file(backbone)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    out.unlink()
    pretrain(_recipe(source), out, [StopAt(1)], use_cache=False)  # it is finished: nothing is trained
    assert torch.equal(load_file(out)["head.weight"], theirs["head.weight"])
    with pytest.raises(TrainingError, match=r"holds a run of another recipe \(seed: 3 -> 0\)"):
        pretrain(pretraining_recipe(source, "wrn14_2", 16, 2, QUICK[:-1]), out)


@pytest.mark.slow
def test_more_epochs_extend_a_run_and_replace_its_file(source: Path, tmp_path: Path) -> None:
    out = pretrain(_recipe(source, 1), tmp_path / "leafy.safetensors", use_cache=False)
    before = load_file(out)
    assert open_run(tmp_path / "leafy", "cpu").recipe.training.warmup_epochs == pytest.approx(0.1)
    pretrain(_recipe(source, 2), out, use_cache=False)
    card = read_card(out)
    assert card is not None
    assert card.epochs == 2
    assert open_run(tmp_path / "leafy", "cpu").recipe.training.warmup_epochs == pytest.approx(0.1)  # as it began
    pretrain(_recipe(source, 2), out, [_KillAt(5)], use_cache=False)  # it is finished: nothing is trained
    assert [report.epoch for report in RunFolder(tmp_path / "leafy").epochs()] == [0, 1]
    assert not torch.equal(load_file(out)["stem.conv.weight"], before["stem.conv.weight"])
    with pytest.raises(TrainingError, match=r"has already trained 2\.0 epochs; training\.epochs must be at least that"):
        pretrain(_recipe(source, 1), out)
    with pytest.raises(
        TrainingError, match=r"holds a run of another recipe \(.*training\.warmup_epochs: 0\.1 -> 0\.5\)"
    ):
        pretrain(pretraining_recipe(source, "wrn14_2", 16, 3, (*QUICK, "training.warmup_epochs=0.5")), out)


@pytest.mark.slow
def test_an_extension_that_was_killed_before_it_saved_continues_and_ends_with_the_same_bits(
    source: Path, tmp_path: Path
) -> None:
    straight = pretrain(_recipe(source, 1), tmp_path / "straight.safetensors", use_cache=False)
    for name in ("same", "shorter"):
        shutil.copytree(tmp_path / "straight", tmp_path / name)
    pretrain(_recipe(source, 2), straight, use_cache=False)
    for name, planned in (("same", 2), ("shorter", 3)):
        out = tmp_path / f"{name}.safetensors"
        with pytest.raises(_Killed):
            pretrain(_recipe(source, planned), out, [_KillAt(5)], use_cache=False)
        assert not out.exists()
        pretrain(_recipe(source, 2), out, use_cache=False)
        ours, theirs = load_file(out), load_file(straight)
        assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


@pytest.mark.slow
def test_one_of_several_processes_writes_the_file(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path
) -> None:
    shutil.copytree(backbone.with_suffix(""), tmp_path / "leafy")  # a finished run
    with monkeypatch.context() as patch:
        patch.setattr("prunus.pretraining.backbone_file.is_first_process", lambda: False)
        pretrain(_recipe(source), tmp_path / "leafy.safetensors")
    assert not (tmp_path / "leafy.safetensors").exists()
    pretrain(_recipe(source), tmp_path / "leafy.safetensors")
    assert (tmp_path / "leafy.safetensors").exists()


@pytest.mark.slow
def test_real_images_are_learned(tmp_path: Path) -> None:
    changes = ["training.batch_size=32", "training.lr=0.05"]
    out = pretrain(pretraining_recipe("demo:signs", "wrn14_2", 16, 3, changes), tmp_path / "signs.safetensors")
    card = read_card(out)
    assert card is not None
    assert card.accuracy is not None
    assert card.accuracy > 3 / len(card.classes)  # three times as good as guessing


@pytest.mark.slow
def test_a_network_of_timm_that_standardizes_its_weights_is_restored_exactly(source: Path, tmp_path: Path) -> None:
    name = "timm/test_nfnet"
    recipe = pretraining_recipe(source, name, 32, 1, ["training.batch_size=16", "training.lr=0.001"])
    out = pretrain(recipe, tmp_path / "b.safetensors", use_cache=False)
    served = load_backbone(BackboneChoice(name=name, weights=str(out)))
    run = open_run(tmp_path / "b", "cpu")
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        trained = torch.func.functional_call(run.net.network.eval(), run.net.tensors("leaves"), (images,))
        assert torch.equal(served.network.eval()(images), trained)
    assert served.preprocess == run.preprocess["leaves"]


@pytest.mark.slow
def test_a_file_of_another_network_or_cut_short_is_refused(backbone: Path, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match=r"holds the weights of wrn14_2, but the recipe's backbone is wrn28_4; set"):
        load_backbone(BackboneChoice(name="wrn28_4", weights=str(backbone)))
    (tmp_path / "short.safetensors").write_bytes(backbone.read_bytes()[:-4])
    with pytest.raises(BackboneError, match="is not a safetensors file"):
        load_backbone(BackboneChoice(name="wrn14_2", weights=str(tmp_path / "short.safetensors")))


def test_what_cannot_be_trained_or_written_is_refused_before_any_work(tmp_path: Path, source: Path) -> None:
    with pytest.raises(DataError, match=r"the folder of images /nowhere does not exist; name a folder or zip file"):
        pretrain("/nowhere", tmp_path / "b.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there is no train split: expected <split>/<class>/<image>"):
        pretrain(tmp_path / "empty", tmp_path / "b.safetensors")
    with pytest.raises(
        RecipeError, match=r"must end in \.safetensors, as in backbones/mine\.safetensors; got .*b\.pth"
    ):
        pretrain(_recipe(source), tmp_path / "b.pth")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(RecipeError, match="is a folder; name a file"):
        pretrain(_recipe(source), tmp_path / "folder.safetensors")
    feature = parse_recipe({"backbone": "wrn14_2", "domains": [str(source)], "method": "feature"})
    with pytest.raises(RecipeError, match='one domain with method = "finetune"'):
        pretrain(feature, tmp_path / "b.safetensors")


def test_the_speed_is_that_of_the_median_epoch() -> None:
    epochs = [EpochReport(i, i, {}, 1.0, images_per_second=speed) for i, speed in enumerate((9.0, 50.0, 52.0))]
    assert images_per_second(epochs) == 50.0
    assert images_per_second([]) is None
    assert images_per_second([EpochReport(0, 1, {}, 1.0)]) is None  # logs of earlier versions
