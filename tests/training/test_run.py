"""Runs: begun, interrupted, killed, resumed, refused; a run that goes on ends where it would have ended."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from typing_extensions import override

import prunus
from prunus.backbone.zoo import ZOO, ZooEntry
from prunus.checkpoints.checkpoint import read_checkpoint, write_checkpoint
from prunus.config import BackboneChoice, Budget, MethodChoice, Recipe, Sharing
from prunus.errors import (
    BackboneError,
    DamagedFileError,
    RecipeError,
    TrainingError,
    TrainingInterrupted,
    UnknownNameError,
)
from prunus.files import temporary_beside
from prunus.losses.constraint import Constraint
from prunus.losses.sharing import SHARING_LOSSES, union
from prunus.recipes import parse_recipe
from prunus.run_folder import EpochReport, RunFolder
from prunus.training import run as runs
from prunus.training.observers import Observer
from prunus.training.planning import check_recipe
from prunus.training.run import open_run
from tests.conftest import write_domain
from tests.makers.stopping import StopAt

pytestmark = pytest.mark.slow  # trains

MakeDomain = Callable[..., Path]
start_run = partial(runs.start_run, device="cpu")  # bit for bit is a promise for CPUs only
resume_run = partial(runs.resume_run, device="cpu")


@pytest.fixture
def recipe(make_domain: MakeDomain, tmp_path: Path) -> Recipe:
    """Two tiny domains, 2 epochs of 2 + 2 steps, a checkpoint after every step."""
    paths = [str(make_domain(name, train=4)) for name in ("one", "two")]
    training = {"epochs": 2, "batch_size": 4, "lr": 0.05, "checkpoint_seconds": 1e-9}
    backbone = {"name": "wrn14_2", "size": 16}
    return parse_recipe(
        {"preset": "paper", "backbone": backbone, "domains": paths, "budget": 0.5, "training": training}
    )


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    return read_checkpoint(RunFolder(path).checkpoint).tensors


def _same(first: Path, second: Path) -> bool:
    ours, theirs = _tensors(first), _tensors(second)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_what_a_recipe_leaves_open_is_chosen_once_and_kept(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"batch_size": 4, "checkpoint_seconds": 1e-9}
    content = {"backbone": "wrn14_2", "budget": 0.5, "training": short}
    minimal = parse_recipe(content | {"domains": [domain.path for domain in recipe.domains]})
    monkeypatch.setattr("prunus.training.settling.MOST_EPOCHS", 2)
    with pytest.raises(TrainingInterrupted):
        start_run(minimal, tmp_path / "run", [StopAt(3, signal.SIGINT)])
    stored = json.loads(RunFolder(tmp_path / "run").recipe.read_text())
    assert (stored["training"]["epochs"], stored["training"]["switch_lr"]) == (2, 3e-4)
    assert (stored["preset"], stored["method"]["name"]) == ("auto", "exact")
    monkeypatch.setattr("prunus.training.settling.MOST_EPOCHS", 1)  # another rule of a later version
    resume_run(tmp_path / "run", recipe=minimal)
    position = read_checkpoint(RunFolder(tmp_path / "run").checkpoint).position
    assert (position.step, position.total_steps) == (8, 8)
    before = RunFolder(tmp_path / "run").checkpoint.stat().st_mtime_ns
    runs.train_or_continue(minimal, tmp_path / "run", device="cpu")  # finished
    assert RunFolder(tmp_path / "run").checkpoint.stat().st_mtime_ns == before
    longer = minimal.training.model_copy(update={"epochs": 3})
    resume_run(tmp_path / "run", recipe=minimal.model_copy(update={"training": longer}))
    assert read_checkpoint(RunFolder(tmp_path / "run").checkpoint).position.total_steps == 12
    assert prunus.evaluate(tmp_path / "run", device="cpu").union <= 0.5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_saves_says_how_to_go_on_and_ends_the_same(
    recipe: Recipe, tmp_path: Path, number: signal.Signals
) -> None:
    start_run(recipe, tmp_path / "straight")
    with pytest.raises(TrainingInterrupted, match=r"saved at step 3 of 8; continue with: prunus\.resume"):
        start_run(recipe, tmp_path / "stopped", [StopAt(3, number)])
    assert read_checkpoint(RunFolder(tmp_path / "stopped").checkpoint).position.step == 3
    resume_run(tmp_path / "stopped")
    assert _same(tmp_path / "straight", tmp_path / "stopped")
    logs = [
        [json.loads(line) for line in RunFolder(tmp_path / n).log.read_text().splitlines()]
        for n in ("straight", "stopped")
    ]
    for entry in [*logs[0], *logs[1]]:
        del entry["seconds"], entry["images_per_second"]
    assert logs[0] == logs[1]
    assert [entry["epoch"] for entry in logs[0]] == [0, 1]


def test_the_same_recipe_gives_the_same_weights_and_another_seed_others(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "a")
    start_run(recipe, tmp_path / "b")
    start_run(recipe.model_copy(update={"seed": 1}), tmp_path / "c")
    assert _same(tmp_path / "a", tmp_path / "b")
    assert not _same(tmp_path / "a", tmp_path / "c")


@pytest.mark.parametrize("strategy", ["round_robin", "alternate", "mixed", "individual"])
def test_every_strategy_trains_and_reports_every_domain(recipe: Recipe, tmp_path: Path, strategy: str) -> None:
    training = recipe.training.model_copy(update={"strategy": strategy})
    method = "ba2" if strategy == "individual" else "union"
    start_run(recipe.model_copy(update={"training": training, "method": MethodChoice(name=method)}), tmp_path / "run")
    entries = [json.loads(line) for line in RunFolder(tmp_path / "run").log.read_text().splitlines()]
    assert {name for entry in entries for name in entry["domains"]} == {"one", "two"}
    assert open_run(tmp_path / "run").checkpoint.position.step == entries[-1]["step"]
    assert all(0 <= d["validation_accuracy"] <= 1 for entry in entries for d in entry["domains"].values())


def test_training_on_train_and_validation_holds_nothing_out(recipe: Recipe, tmp_path: Path) -> None:
    seen: list[EpochReport] = []

    class Watch(Observer):
        def epoch_ended(self, report: EpochReport) -> None:
            seen.append(report)

    training = recipe.training.model_copy(update={"splits": "train+validation"})
    start_run(recipe.model_copy(update={"training": training}), tmp_path / "run", [Watch()])
    held_out = [progress.validation_accuracy for report in seen for progress in report.domains.values()]
    assert held_out == [None] * 4  # two domains, two epochs


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_state(recipe: Recipe, tmp_path: Path) -> None:
    training = recipe.training.model_copy(update={"lr": 1e30, "epochs": 5})
    with pytest.raises(TrainingError, match="is not a number at step"):
        start_run(recipe.model_copy(update={"training": training}), tmp_path / "run")
    saved = _tensors(tmp_path / "run")
    assert saved
    assert all(bool(torch.isfinite(tensor).all()) for tensor in saved.values())


def test_a_folder_with_a_run_is_never_overwritten(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    before = (tmp_path / "run" / "checkpoint.safetensors").read_bytes()
    with pytest.raises(TrainingError, match="already holds a run"):
        start_run(recipe, tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").read_bytes() == before


def test_a_checkpoint_of_another_recipe_is_refused_and_the_difference_named(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    with pytest.raises(TrainingError, match=r"another recipe \(budget: 0.5 -> 0.1\)"):
        resume_run(tmp_path / "run", recipe=recipe.model_copy(update={"budget": Budget(kernels=0.1)}))


@pytest.mark.parametrize(
    "change", [{"budget": Budget(kernels=0.1)}, {"seed": 5}, {"method": MethodChoice(name="feature")}]
)
def test_a_checkpoint_that_was_put_into_another_runs_folder_is_refused(
    recipe: Recipe, tmp_path: Path, change: dict[str, object]
) -> None:
    start_run(recipe, tmp_path / "run")
    start_run(recipe.model_copy(update=change), tmp_path / "other")
    (tmp_path / "other" / "checkpoint.safetensors").replace(tmp_path / "run" / "checkpoint.safetensors")
    for act in (open_run, resume_run):
        with pytest.raises(TrainingError, match=f"was saved by another recipe than .*{next(iter(change))}"):
            act(tmp_path / "run")


class _StopInReport(Observer):
    """Sends Ctrl-C while an epoch is being reported."""

    def epoch_ended(self, report: EpochReport) -> None:
        """Send it."""
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_while_validating_is_saved_too(recipe: Recipe, tmp_path: Path) -> None:
    rarely = recipe.training.model_copy(update={"checkpoint_seconds": 1e9})
    with pytest.raises(TrainingInterrupted, match="saved at step 4 of 8"):
        start_run(recipe.model_copy(update={"training": rarely}), tmp_path / "run", [_StopInReport()])
    assert read_checkpoint(RunFolder(tmp_path / "run").checkpoint).position.step == 4


def _with_dropout(share: float) -> ZooEntry:
    def network() -> nn.Module:
        first = (nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(share))
        return nn.Sequential(*first, nn.Conv2d(6, 5, 3), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    return ZooEntry(network, "none", 16, 0.5, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "nothing")


def test_a_backbone_with_dropout_resumes_exactly_too(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ZOO, "dropout", _with_dropout(0.5))
    recipe = recipe.model_copy(update={"backbone": BackboneChoice(name="dropout", weights="random")})
    start_run(recipe, tmp_path / "straight")
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "stopped", [StopAt(3, signal.SIGINT)])
    torch.rand(5)
    resume_run(tmp_path / "stopped")
    assert _same(tmp_path / "straight", tmp_path / "stopped")
    monkeypatch.setitem(ZOO, "dropout", _with_dropout(0.0))
    start_run(recipe, tmp_path / "without")
    assert not _same(tmp_path / "straight", tmp_path / "without")  # it was not switched off


def test_relative_paths_mean_the_folder_where_the_run_was_begun(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content = json.loads(recipe.model_dump_json()) | {"domains": ["one", "two"]}
    start_run(parse_recipe(content), Path("run"))
    monkeypatch.chdir("/")
    assert open_run(tmp_path / "run").recipe.domains[0].path == str(tmp_path / "one")
    resume_run(tmp_path / "run")


@pytest.mark.parametrize("loss", SHARING_LOSSES)
def test_every_sharing_loss_of_the_table_trains(recipe: Recipe, tmp_path: Path, loss: str) -> None:
    start_run(recipe.model_copy(update={"sharing": Sharing(loss=loss)}), tmp_path / "run")
    assert open_run(tmp_path / "run").checkpoint.position.step == 8


def test_a_new_sharing_loss_and_a_new_backbone_train_prune_and_predict_by_their_rows_alone(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tiny() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def half_union(mask_DM: torch.Tensor, budget: float) -> Constraint:
        size, gradient = union(mask_DM)
        return Constraint(size / mask_DM.shape[1] - budget / 2, gradient / mask_DM.shape[1])

    monkeypatch.setitem(ZOO, "tiny", ZooEntry(tiny, "none", 16, 0.5, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "nothing"))
    monkeypatch.setitem(SHARING_LOSSES, "half_union", half_union)
    changes = {"backbone": BackboneChoice(name="tiny", weights="random"), "sharing": Sharing(loss="half_union")}
    run = prunus.train(recipe.model_copy(update=changes), tmp_path / "run")
    predictor = prunus.Predictor(prunus.prune(run, tmp_path / "m.prunus"))
    image = next((tmp_path / "one" / "test").rglob("*.png"))
    assert sum(p.probability for p in predictor.predict(image, "one")[0]) == pytest.approx(1, abs=1e-5)
    assert prunus.evaluate(run).sharing == "half_union"


def test_leftovers_of_dead_processes_are_swept(recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").mkdir()
    dead = subprocess.Popen(["true"])
    dead.wait()
    ours = temporary_beside(tmp_path / "run" / "mine")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: dead.pid)
        leftover = temporary_beside(tmp_path / "run" / "checkpoint.safetensors")
        patch.setattr(platform, "node", lambda: "another.machine")
        theirs = temporary_beside(tmp_path / "run" / "theirs")
    for file in (ours, leftover, theirs):
        file.touch()
    start_run(recipe, tmp_path / "run")
    assert (ours.exists(), leftover.exists(), theirs.exists()) == (True, False, True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_a_run_on_a_gpu_gives_what_a_cpu_gives_within_rounding(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "cpu", device="cpu")
    start_run(recipe, tmp_path / "gpu", device="cuda")
    ours, theirs = _tensors(tmp_path / "gpu"), _tensors(tmp_path / "cpu")
    heads = [name for name in theirs if name.startswith("net/heads")]
    assert heads
    for name in heads:
        torch.testing.assert_close(ours[name], theirs[name], rtol=0.05, atol=0.05)


def test_changed_data_is_noticed_on_resume(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    next((tmp_path / "one" / "train").rglob("*.png")).unlink()
    with pytest.raises(TrainingError, match="data of domain 'one' has changed"):
        resume_run(tmp_path / "run")


def test_a_damaged_checkpoint_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    file = RunFolder(tmp_path / "run").checkpoint
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(TrainingError, match="is not a readable checkpoint"):
        open_run(tmp_path / "run")


def test_a_full_disk_leaves_the_last_checkpoint_readable(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "run", [StopAt(3, signal.SIGINT)])

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match="No space left on device; existing files are unchanged"):
            resume_run(tmp_path / "run")
    assert read_checkpoint(RunFolder(tmp_path / "run").checkpoint).position.step == 3
    resume_run(tmp_path / "run")
    start_run(recipe, tmp_path / "straight")
    assert _same(tmp_path / "straight", tmp_path / "run")


def test_contradictions_and_unknown_names_are_refused_before_any_work(recipe: Recipe) -> None:
    alone = recipe.training.model_copy(update={"strategy": "individual"})
    with pytest.raises(RecipeError, match="needs domains to learn together"):
        check_recipe(recipe.model_copy(update={"training": alone}))
    content = json.loads(recipe.model_dump_json()) | {"method": "ba2", "sharing": {"loss": "jaccard"}}
    with pytest.raises(RecipeError, match="does not use the sharing loss 'jaccard'"):
        check_recipe(parse_recipe(content))
    with pytest.raises(UnknownNameError, match="unknown method 'ba3'"):
        check_recipe(recipe.model_copy(update={"method": MethodChoice(name="ba3")}))
    size = {"budget": Budget(bytes=1_000_000)}
    check_recipe(recipe.model_copy(update={"method": MethodChoice(name="exact"), "sharing": Sharing(), **size}))
    with pytest.raises(RecipeError, match=r"'ba2' limits a share of the kernels only.*budget\.bytes.*\"exact\", or a"):
        check_recipe(recipe.model_copy(update={"method": MethodChoice(name="ba2"), "sharing": Sharing(), **size}))
    with pytest.raises(RecipeError, match=r"'bn' has no budget, but the recipe sets budget\.bytes"):
        check_recipe(recipe.model_copy(update={"method": MethodChoice(name="bn"), "sharing": Sharing(), **size}))


def test_an_unusable_device_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match="'gpu' cannot be used"):
        start_run(recipe, tmp_path / "run", device="gpu")


def test_an_extension_that_was_a_mistake_can_be_corrected(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    trained = prunus.load_recipe(RunFolder(tmp_path / "run").recipe)

    def longer(epochs: int) -> Recipe:
        return trained.model_copy(update={"training": trained.training.model_copy(update={"epochs": epochs})})

    RunFolder(tmp_path / "run").recipe.write_text(longer(50).model_dump_json())  # and killed before its first step
    with pytest.raises(TrainingError, match=r"has already trained 2.0 epochs; training.epochs must be at least"):
        resume_run(tmp_path / "run", recipe=longer(1))
    resume_run(tmp_path / "run", recipe=longer(3))
    assert read_checkpoint(RunFolder(tmp_path / "run").checkpoint).position.step == 12


def test_a_run_starts_only_from_a_run_that_fits(recipe: Recipe, tmp_path: Path) -> None:
    start_run(recipe, tmp_path / "run")
    from_run = recipe.model_copy(update={"init": str(tmp_path / "run")})
    refusals: dict[str, dict[str, object]] = {
        f"there is no trained run in {tmp_path / 'none'} to start from": {"init": str(tmp_path / "none")},
        "was trained with backbone wrn14_2, and this recipe has wrn28_4;": {"backbone": BackboneChoice(name="wrn28_4")},
        "this recipe has wrn14_2 with other weights": {"backbone": BackboneChoice(name="wrn14_2", weights="random")},
        "was trained with method 'union', whose parameters do not fit 'feature'": {
            "method": MethodChoice(name="feature")
        },
        "was trained on other domains or classes": {"domains": recipe.domains[::-1]},
    }
    for number, (message, changes) in enumerate(refusals.items()):
        with pytest.raises(TrainingError, match=re.escape(message)):
            start_run(from_run.model_copy(update=changes), tmp_path / f"refused{number}")


@pytest.mark.parametrize("setting", [{"keep": "best"}, {"patience": 3}])
def test_the_best_epoch_needs_validation_images(recipe: Recipe, setting: dict[str, object]) -> None:
    for changes in ({"splits": "train+validation"}, {"strategy": "individual"}):
        training = recipe.training.model_copy(update={**setting, **changes})
        method = MethodChoice(name="ba2")
        with pytest.raises(RecipeError, match=r"remove training.keep and training.patience"):
            check_recipe(recipe.model_copy(update={"training": training, "method": method}))


def test_a_run_that_keeps_its_best_epoch_is_opened_there_and_continues_from_the_last(
    recipe: Recipe, tmp_path: Path
) -> None:
    training = recipe.training.model_copy(update={"keep": "best"})
    start_run(recipe.model_copy(update={"training": training, "budget": Budget(kernels=1.0)}), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    shutil.copy(folder.checkpoint, tmp_path / "last")
    best = read_checkpoint(folder.best)
    with torch.no_grad():
        best.tensors["net/heads.0.bias"].fill_(7.0)  # unlike any other state of the run
    write_checkpoint(folder.best, best)
    assert dict(open_run(tmp_path / "run").net.named_parameters())["heads.0.bias"].tolist() == [7.0, 7.0]
    resume_run(tmp_path / "run")
    assert folder.checkpoint.read_bytes() == (tmp_path / "last").read_bytes()


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) * 2 // 3] ^= 16
    file.write_bytes(content)


class _Notes(Observer):
    def __init__(self) -> None:
        self.messages: list[str] = []

    @override
    def noted(self, message: str) -> None:
        self.messages.append(message)


def test_a_run_with_a_damaged_checkpoint_continues_from_the_one_before_and_ends_the_same(
    recipe: Recipe, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, folder.path, [StopAt(3, signal.SIGINT)])
    assert [read_checkpoint(file).position.step for file in (folder.previous, folder.checkpoint)] == [2, 3]
    _flip(folder.checkpoint)
    for attempt in (partial(open_run, folder.path), partial(prunus.prune, folder.path, tmp_path / "model.prunus")):
        with pytest.raises(DamagedFileError, match=r"checksum does not match .*continue .*: prunus\.resume"):
            attempt()
    notes = _Notes()
    with pytest.raises(TrainingInterrupted):
        resume_run(folder.path, [notes, StopAt(3, signal.SIGINT)])
    assert [message for message in notes.messages if "damaged" in message or "checksum" in message] == [
        f"{folder.checkpoint} is not a readable checkpoint: its checksum does not match its content; "
        "training continues from the checkpoint before it, at step 2 of 8"
    ]
    # the damaged file is never kept as the one before
    assert [read_checkpoint(file).position.step for file in (folder.previous, folder.checkpoint)] == [2, 3]
    resume_run(folder.path)
    assert [read_checkpoint(file).position.step for file in (folder.previous, folder.checkpoint)] == [7, 8]
    start_run(recipe, tmp_path / "straight")
    assert _same(tmp_path / "straight", folder.path)


def test_a_checkpoint_alone_is_opened_and_continued_to_the_same_end(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "run", [StopAt(3, signal.SIGINT)])
    alone = RunFolder(tmp_path / "alone")
    alone.path.mkdir()
    shutil.copy(RunFolder(tmp_path / "run").checkpoint, alone.checkpoint)
    assert open_run(alone.path).checkpoint.position.step == 3
    resume_run(alone.path)
    start_run(recipe, tmp_path / "straight")
    assert _same(tmp_path / "straight", alone.path)
    assert prunus.load_recipe(alone.recipe) == prunus.load_recipe(RunFolder(tmp_path / "straight").recipe)


def test_renamed_classes_and_other_validation_images_are_noticed_on_resume(recipe: Recipe, tmp_path: Path) -> None:
    write_domain(tmp_path / "two", train=4, validation=2)
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "run", [StopAt(3, signal.SIGINT)])
    renamed = [folder / "b" for folder in (tmp_path / "one").iterdir()]
    for folder in renamed:
        folder.rename(folder.with_name("c"))
    with pytest.raises(TrainingError, match=r"classes of domain 'one' have changed .*\('b' is now 'c'\); rename them"):
        resume_run(tmp_path / "run")
    for folder in renamed:
        folder.with_name("c").rename(folder)
    image = next((tmp_path / "two" / "validation" / "a").glob("*.png"))
    shutil.copy(next((tmp_path / "two" / "train" / "b").glob("*.png")), image)
    with pytest.raises(TrainingError, match="the validation data of domain 'two' has changed since this run began"):
        resume_run(tmp_path / "run")


def test_two_processes_never_train_in_one_folder(recipe: Recipe, tmp_path: Path) -> None:
    attempts = [partial(resume_run, tmp_path / "run"), partial(start_run, recipe, tmp_path / "run")]

    class Second(Observer):
        refusals = 0

        @override
        def stepped(self, step: int, epoch: int) -> None:
            for attempt in attempts:
                with pytest.raises(TrainingError, match=r"another process is training in .*run; wait until it ends"):
                    attempt()
                self.refusals += 1
            if step == 2:
                assert open_run(tmp_path / "run").checkpoint.position.step == 1  # readers need no lock

    second = Second()
    start_run(recipe, tmp_path / "run", [second])
    assert second.refusals == 16
    resume_run(tmp_path / "run")


def test_a_header_whose_steps_do_not_fit_its_recipe_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    file = RunFolder(tmp_path / "run").checkpoint
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, tmp_path / "run", [StopAt(3, signal.SIGINT)])
    saved = read_checkpoint(file)
    position = saved.position.model_copy(update={"step": 10**6, "total_steps": 10**6})
    write_checkpoint(file, replace(saved, position=position))
    with pytest.raises(TrainingError, match="counts 1000000 steps in all, but its recipe and images make 8;"):
        resume_run(tmp_path / "run")


def test_a_damaged_best_epoch_is_named_and_later_epochs_replace_it(recipe: Recipe, tmp_path: Path) -> None:
    training = recipe.training.model_copy(update={"keep": "best"})
    recipe = recipe.model_copy(update={"training": training, "budget": Budget(kernels=1.0)})
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, folder.path, [StopAt(5, signal.SIGINT)])
    _flip(folder.best)
    with pytest.raises(DamagedFileError, match=r"best.safetensors is not .*or remove it to use the last state"):
        open_run(folder.path)
    notes = _Notes()
    resume_run(folder.path, [notes])
    assert any("epoch 1 is lost, so the best of the epochs that follow is kept" in note for note in notes.messages)
    assert read_checkpoint(folder.best).position.step == 8
    start_run(recipe, tmp_path / "straight")
    assert _same(tmp_path / "straight", folder.path)


def test_damaged_images_in_the_cache_are_decoded_again_and_named(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    start_run(recipe, tmp_path / "first")
    for entry in (tmp_path / "cache").rglob("images.npy"):
        _flip(entry)
    notes = _Notes()
    start_run(recipe, tmp_path / "second", [notes])
    words = "images of domain {!r} in the cache were damaged and have been decoded again"
    for name in ("one", "two"):
        said = [note for note in notes.messages if words.format(name) in note]
        assert [note.split()[1] for note in said] == ["train", "validation"]
    assert _same(tmp_path / "first", tmp_path / "second")
