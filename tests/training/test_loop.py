"""The loop: what it reports, when it saves and what it refuses to save."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from prunus.checkpoints.checkpoint import Checkpoint, read_checkpoint
from prunus.data.loading import ImageSet
from prunus.errors import TrainingError, TrainingInterrupted
from prunus.learning.feed import DomainData, make_feeds
from prunus.learning.frozen_features import frozen_accuracies, read_classifiers
from prunus.learning.learner import Learner, copy_state, network_state
from prunus.learning.norms import renew_norms
from prunus.run_folder import EpochReport, RunFolder
from prunus.training import loop
from prunus.training.loop import fit
from prunus.training.observers import Observer
from prunus.training.saving import Saver
from tests.makers.stopping import StopAt
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_identity, tiny_net, tiny_recipe


class _Recorder(Observer):
    """Keeps everything it is told."""

    def __init__(self) -> None:
        self.epochs: list[EpochReport] = []
        self.intermediate: list[EpochReport] = []
        self.steps: list[tuple[int, int]] = []
        self.bounds: list[object] = []
        self.notes: list[str] = []

    def noted(self, message: str) -> None:
        self.notes.append(message)

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


def _learner(method: str = "union", budget: float = 0.3, **training: object) -> Learner:
    """Prepare 2 epochs of 2 + 2 steps; the switches hardly move."""
    settings = {"epochs": 2, "batch_size": 4, "switch_lr": 1e-12, "strategy": "alternate"} | training
    return Learner(tiny_net(method), tiny_recipe(method=method, budget=budget, training=settings))


def _fit(
    learner: Learner, path: Path, observer: Observer, validation: bool = False, start: Checkpoint | None = None
) -> None:
    fit(learner, _data(validation), Saver(RunFolder(path), learner, tiny_identity(learner.recipe)), observer, start)


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
    report = recorder.epochs[0]  # the last one counts what the model file has
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


def _saved(path: Path, name: str = "checkpoint") -> dict[str, torch.Tensor]:
    return read_checkpoint(getattr(RunFolder(path), name)).tensors


def _same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def _is_statistic(name: str) -> bool:
    return "running" in name or "num_batches" in name


def test_the_norms_are_estimated_again_at_the_end_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fit(_learner(), tmp_path / "with", _Recorder())
    monkeypatch.setattr(loop, "renew_norms", lambda *_: None)
    _fit(_learner(), tmp_path / "without", _Recorder())
    ours, theirs = _saved(tmp_path / "with"), _saved(tmp_path / "without")
    assert {name for name in ours if not torch.equal(ours[name], theirs[name])} == set(filter(_is_statistic, ours))
    assert {int(ours[name]) for name in ours if "num_batches" in name} == {8}
    assert {int(theirs[name]) for name in theirs if "num_batches" in name} == {4}


def test_the_last_epochs_accuracy_is_that_of_the_saved_state(tmp_path: Path) -> None:
    recorder = _Recorder()
    _fit(_learner(lr=0.05), tmp_path, recorder, validation=True)
    opened = _learner()
    copy_state(_saved(tmp_path), network_state(opened.net))
    accuracies = {name: domain.validation_accuracy for name, domain in recorder.epochs[-1].domains.items()}
    assert loop.validate(opened, _data(validation=True)) == accuracies
    assert recorder.epochs[-1].images_per_second < 1e6  # not that of the second report


def _colours(name: str) -> DomainData:
    """Make a domain whose classes are bright or dark, on a scale that the norms of the backbone have never seen."""
    rng = np.random.default_rng(len(name))
    labels = np.arange(32) % 2
    images = (rng.integers(0, 20, (32, 3, 9, 9)) + 200 + 30 * labels[:, None, None, None]).astype(np.uint8)
    return DomainData(name, PREPROCESS, True, ImageSet(images, labels), ImageSet(images, labels))


@pytest.mark.parametrize("renews", [False, True])
def test_a_short_run_becomes_more_accurate_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renews: bool) -> None:
    if not renews:
        monkeypatch.setattr(loop, "renew_norms", lambda *_: None)
    learner = _learner("bn", epochs=3, batch_size=8, lr=0.3)
    recorder = _Recorder()
    saver = Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe))
    fit(learner, [_colours(name) for name in CLASSES], saver, recorder)
    accuracies = [domain.validation_accuracy or 0 for domain in recorder.epochs[-1].domains.values()]
    assert accuracies == ([1.0, 1.0] if renews else [0.5, 0.5])


def test_nothing_is_noted_at_the_end_of_a_good_run(tmp_path: Path) -> None:
    learner = _learner(budget=1.0, epochs=6, batch_size=8, lr=0.3)
    recorder = _Recorder()
    saver = Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe))
    fit(learner, [_colours(name) for name in CLASSES], saver, recorder)
    assert recorder.notes == []


def test_a_network_that_is_switched_off_whole_is_noted_at_the_end(tmp_path: Path) -> None:
    learner = _learner(budget=1.0)
    recorder = _Recorder()
    assert learner.net.switches is not None
    with torch.no_grad():
        learner.net.switches.scores_DM.fill_(-1.0)
    _fit(learner, tmp_path, recorder)
    (note,) = recorder.notes
    assert note.startswith("no domain reads any kernel, so the answers do not depend on the images; set a")
    ending = RunFolder(tmp_path).read_ending()
    assert ending is not None
    assert (ending.step, ending.union, list(ending.findings)) == (8, 0.0, recorder.notes)


def test_frozen_features_stand_beside_the_accuracies_of_a_run(tmp_path: Path) -> None:
    learner = _learner(budget=1.0)
    data = [_colours(name) for name in CLASSES]
    fit(learner, data, Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe)), _Recorder())
    ending = RunFolder(tmp_path).read_ending()
    assert ending is not None
    expected = frozen_accuracies(learner.net, data, read_classifiers(RunFolder(tmp_path).frozen_features))
    assert {name: domain.frozen_accuracy for name, domain in ending.domains.items()} == expected
    assert min(expected.values()) > 0.9


def test_a_backbone_with_random_weights_has_no_features_worth_measuring(tmp_path: Path) -> None:
    backbone = {"name": "wrn14_2", "weights": "random"}
    recipe = tiny_recipe(backbone=backbone, training={"epochs": 1, "batch_size": 4})
    learner = Learner(tiny_net(), recipe)
    _fit(learner, tmp_path, _Recorder(), validation=True)
    assert not RunFolder(tmp_path).frozen_features.exists()
    ending = RunFolder(tmp_path).read_ending()
    assert ending is not None
    assert {domain.frozen_accuracy for domain in ending.domains.values()} == {None}


def test_an_interrupted_run_keeps_the_statistics_of_training(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        _fit(_learner(), tmp_path, StopAt(6))
    saved = _saved(tmp_path)
    assert sorted(int(saved[name]) for name in saved if "num_batches" in name) == [3, 3]


def test_a_run_that_is_killed_while_it_ends_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = partial(_learner, budget=1.0, keep="best", checkpoint_seconds=1e-9, switch_lr=1e-3)
    _fit(prepare(), tmp_path / "straight", _Recorder(), validation=True)
    for last in (0, 1, 2):  # while the best state, or the last one, is estimated, or before it is saved
        calls = iter(range(3))

        def killed(*arguments: object, last: int = last, calls: Iterator[int] = calls) -> None:
            renew_norms(*arguments)  # type: ignore[arg-type]
            if next(calls) == last:
                raise KeyboardInterrupt

        folder = RunFolder(tmp_path / f"killed{last}")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(loop, "renew_norms", killed)
            if last == 2:
                patch.setattr(Saver, "save", _killed_at_the_end(Saver.save))
            _fit(prepare(), folder.path, _Recorder(), validation=True)
        assert read_checkpoint(folder.checkpoint).position.step == 7
        _fit(prepare(), folder.path, _Recorder(), True, read_checkpoint(folder.checkpoint))
        for name in ("checkpoint", "best"):
            assert _same(_saved(tmp_path / "straight", name), _saved(folder.path, name))
        straight = read_checkpoint(RunFolder(tmp_path / "straight").checkpoint).position
        assert read_checkpoint(folder.checkpoint).position == straight


def _killed_at_the_end(save: Callable[[Saver], None]) -> Callable[[Saver], None]:
    def wrapped(saver: Saver) -> None:
        if saver.position.is_finished:
            raise KeyboardInterrupt
        save(saver)

    return wrapped


def test_the_best_state_ends_with_norms_of_its_own_and_the_last_one_as_without_it(tmp_path: Path) -> None:
    prepare = partial(_learner, budget=1.0, epochs=4, lr=0.2)
    _fit(prepare(keep="best"), tmp_path / "best", _Recorder(), validation=True)
    _fit(prepare(), tmp_path / "last", _Recorder(), validation=True)
    assert _same(_saved(tmp_path / "best"), _saved(tmp_path / "last"))
    best = read_checkpoint(RunFolder(tmp_path / "best").best)
    assert best.position.best is not None
    assert best.position.step == 4 * (best.position.best.epoch + 1)
    opened = prepare()
    copy_state(best.tensors, network_state(opened.net))
    data = _data(validation=True)
    renew_norms(opened, make_feeds(data, opened.net.device, opened.recipe), [8, 8])
    assert all(torch.equal(tensor, best.tensors[name]) for name, tensor in network_state(opened.net).items())
    ended = read_checkpoint(RunFolder(tmp_path / "best").checkpoint).position.best
    assert ended is not None
    assert ended.final_accuracy == pytest.approx(sum(loop.validate(opened, data).values()) / 2)
    assert ended.epoch < 3  # or the test shows nothing


def test_a_run_that_ends_early_estimates_its_norms_too(tmp_path: Path) -> None:
    _fit(_learner(budget=1.0, epochs=50, patience=1, lr=1e-30), tmp_path, _Recorder(), validation=True)
    saved = read_checkpoint(RunFolder(tmp_path).checkpoint)
    assert saved.position.stopped_early
    assert saved.position.step == 8
    assert {int(tensor) for name, tensor in saved.tensors.items() if "num_batches" in name} == {8}
