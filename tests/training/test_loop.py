"""The loop: what it reports, when it saves and what it refuses to save."""

from pathlib import Path

import numpy as np
import pytest
import torch

from prunus.data.loading import ImageSet
from prunus.errors import TrainingError
from prunus.learning.feed import DomainData
from prunus.learning.learner import Learner
from prunus.run_folder import EpochReport, RunFolder
from prunus.training import loop
from prunus.training.checkpoint import read_checkpoint
from prunus.training.loop import fit
from prunus.training.observers import Observer
from prunus.training.saving import Saver
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_identity, tiny_net, tiny_recipe


class _Recorder(Observer):
    """Keeps everything it is told."""

    def __init__(self) -> None:
        self.epochs: list[EpochReport] = []
        self.intermediate: list[EpochReport] = []
        self.steps: list[tuple[int, int]] = []
        self.bounds: list[object] = []

    def started(self, step: int, total_steps: int) -> None:
        self.bounds.append((step, total_steps))

    def stepped(self, step: int, epoch: int) -> None:
        self.steps.append((step, epoch))

    def progressed(self, report: EpochReport) -> None:
        self.intermediate.append(report)

    def epoch_ended(self, report: EpochReport) -> None:
        self.epochs.append(report)

    def ended(self) -> None:
        self.bounds.append("ended")


def _images(seed: int, classes: int, count: int = 8) -> ImageSet:
    rng = np.random.default_rng(seed)
    return ImageSet(rng.integers(0, 256, (count, 3, 9, 9), np.uint8), np.arange(count) % classes)


def _data(validation: bool = False) -> list[DomainData]:
    return [
        DomainData(name, PREPROCESS, True, _images(seed, len(labels)), _images(seed, 2) if validation else None)
        for seed, (name, labels) in enumerate(CLASSES.items())
    ]


def _learner(**training: object) -> Learner:
    """Prepare 2 epochs of 2 + 2 steps; the switches hardly move."""
    settings = {"epochs": 2, "batch_size": 4, "switch_lr": 1e-12, "strategy": "alternate"} | training
    return Learner(tiny_net(), tiny_recipe(training=settings))


def _fit(learner: Learner, path: Path, observer: Observer, validation: bool = False) -> None:
    fit(learner, _data(validation), Saver(RunFolder(path), learner, tiny_identity(learner.recipe)), observer)


def test_an_epochs_report_counts_usage_union_and_intersection_of_the_switches(tmp_path: Path) -> None:
    learner = _learner()
    recorder = _Recorder()
    switches = learner.net.switches
    assert switches is not None
    total = switches.layout.num_switches
    with torch.no_grad():
        switches.scores_DM.fill_(-1.0)
        switches.scores_DM[0, :10] = 1.0
        switches.scores_DM[1, 7:20] = 1.0
    _fit(learner, tmp_path, recorder)
    report = recorder.epochs[-1]
    assert report.union == pytest.approx(20 / total)
    assert report.intersection == pytest.approx(3 / total)
    assert report.domains["a"].usage == pytest.approx(10 / total)
    assert report.domains["b"].usage == pytest.approx(13 / total)


def test_every_step_and_every_epoch_is_reported_once(tmp_path: Path) -> None:
    recorder = _Recorder()
    _fit(_learner(), tmp_path, recorder, validation=True)
    assert recorder.bounds == [(0, 8), "ended"]
    assert recorder.steps == [(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1), (7, 1), (8, 1)]
    assert [(report.epoch, report.step) for report in recorder.epochs] == [(0, 4), (1, 8)]
    for report in recorder.epochs:
        for progress in report.domains.values():
            assert progress.validation_accuracy is not None
            assert 0 <= progress.train_accuracy <= 1
    assert recorder.intermediate == []


def test_intermediate_reports_skip_validation_and_domains_not_seen_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "STEPS_BETWEEN_REPORTS", 1)
    recorder = _Recorder()
    _fit(_learner(), tmp_path, recorder, validation=True)
    assert [report.step for report in recorder.intermediate] == [1, 2, 3, 5, 6, 7]
    assert list(recorder.intermediate[0].domains) == ["a"]
    assert list(recorder.intermediate[1].domains) == ["a", "b"]
    assert recorder.intermediate[1].domains["a"].validation_accuracy is None


def test_the_losses_of_an_epoch_are_averaged_over_that_epoch_alone(tmp_path: Path) -> None:
    learner = _learner()
    _fit(learner, tmp_path, _Recorder())
    assert bool((learner.tally_D3 == 0).all())


class _Poison(Observer):
    """Spoils a tensor that no loss depends on before a step is saved."""

    def __init__(self, learner: Learner, step: int) -> None:
        self.learner = learner
        self.step = step

    def stepped(self, step: int, epoch: int) -> None:
        if step == self.step:
            self.learner.constraints.sharing_multiplier.fill_(torch.inf)


def test_state_that_is_not_finite_is_never_saved_although_the_loss_is(tmp_path: Path) -> None:
    learner = _learner(checkpoint_seconds=1e-9)
    with pytest.raises(TrainingError, match="multiplier/sharing is no longer finite at step 3; the last good"):
        _fit(learner, tmp_path, _Poison(learner, 3))
    saved = read_checkpoint(RunFolder(tmp_path).checkpoint)
    assert saved.position.step == 2
    assert torch.isfinite(saved.tensors["multiplier/sharing"])


def test_a_first_step_that_fails_says_that_nothing_was_saved(tmp_path: Path) -> None:
    learner = _learner(checkpoint_seconds=1e-9)
    with pytest.raises(TrainingError, match=r"at step 1; nothing was saved yet; try a smaller training.lr"):
        _fit(learner, tmp_path, _Poison(learner, 1))
    assert not RunFolder(tmp_path).checkpoint.exists()


def test_only_the_end_is_saved_where_checkpoints_are_rare(tmp_path: Path) -> None:
    _fit(_learner(checkpoint_seconds=1e9), tmp_path, _Recorder())
    assert read_checkpoint(RunFolder(tmp_path).checkpoint).position.step == 8


def test_training_leaves_the_random_numbers_of_the_caller_alone(tmp_path: Path) -> None:
    learner = _learner()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    _fit(learner, tmp_path, _Recorder())
    assert torch.equal(torch.rand(3), expected)
