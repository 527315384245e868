"""What a run saves: the last state, the best state, and nothing that is not finite."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.errors import TrainingError
from prunus.learning.learner import Learner
from prunus.run_folder import DomainEnding, DomainProgress, Ending, EpochReport, RunFolder
from prunus.training.saving import Saver
from tests.makers.tiny_training import tiny_identity, tiny_net, tiny_recipe


def _saver(path: Path, **training: object) -> Saver:
    learner = Learner(tiny_net(), tiny_recipe(budget=1.0, training=training))
    saver = Saver(RunFolder(path), learner, tiny_identity(learner.recipe))
    saver.begin(100, None)
    return saver


def _report(epoch: int, accuracy: float, loss: float = 1.0) -> EpochReport:
    return EpochReport(epoch, epoch, {"a": DomainProgress(loss, 0.5, accuracy, 0.5)}, union=0.5)


def test_the_best_epoch_is_saved_beside_the_last_one(tmp_path: Path) -> None:
    saver = _saver(tmp_path, keep="best")
    folder = RunFolder(tmp_path)
    for epoch, accuracy in enumerate([0.3, 0.6, 0.5]):
        saver.move_to(10 * (epoch + 1))
        saver.judge(_report(epoch, accuracy))
    saver.save()
    assert read_checkpoint(folder.best).position.step == 20
    position = read_checkpoint(folder.checkpoint).position
    assert position.step == 30
    assert position.best is not None
    assert (position.best.epoch, position.best.accuracy) == (1, 0.6)


def test_by_default_only_the_last_state_is_saved(tmp_path: Path) -> None:
    saver = _saver(tmp_path)
    saver.judge(_report(0, 0.5))
    saver.save()
    assert not RunFolder(tmp_path).best.exists()


def test_a_run_ends_after_so_many_epochs_without_a_better_one(tmp_path: Path) -> None:
    saver = _saver(tmp_path, patience=2)
    finished = []
    for epoch, accuracy in enumerate([0.3, 0.6, 0.5, 0.6]):
        saver.judge(_report(epoch, accuracy))
        finished.append(saver.position.is_finished)
    assert finished == [False, False, False, True]


def test_the_end_of_a_run_says_which_epoch_was_kept_and_why_it_ended(tmp_path: Path) -> None:
    assert _saver(tmp_path).closing_words() == []
    saver = _saver(tmp_path, keep="best", patience=1)
    assert "no epoch was within the budget, so the last one is kept" in saver.closing_words()[0]
    saver.judge(_report(0, 0.6))
    assert saver.closing_words() == ["epoch 1 is kept, with a mean validation accuracy of 60.0%"]
    saver.judge(_report(1, 0.5))
    assert saver.closing_words()[0].startswith("training ended early; epoch 1 is kept")


def test_what_is_wrong_with_a_run_is_said_again_when_it_is_opened_again(tmp_path: Path) -> None:
    ending = Ending(100, {"a": DomainEnding(0.5, 0.25)}, 0.5, True, ("something is wrong",))
    _saver(tmp_path).save_ending(ending)
    assert RunFolder(tmp_path).read_ending() == ending
    assert _saver(tmp_path).closing_words() == ["something is wrong"]


def test_the_best_state_is_settled_in_its_file_and_the_last_one_stays(tmp_path: Path) -> None:
    learner = Learner(tiny_net(), tiny_recipe(budget=1.0, training={"keep": "best"}))
    saver = Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe))
    saver.begin(100, None)
    (bias, *_) = [parameter for name, parameter in learner.net.named_parameters() if name == "heads.0.bias"]
    with torch.no_grad():
        bias.fill_(1.0)
        saver.move_to(10)
        saver.judge(_report(0, 0.6))
        bias.fill_(2.0)
        saver.move_to(20)

    @torch.no_grad()
    def settle() -> Ending:
        assert bias.tolist() == [1.0, 1.0]
        bias.add_(0.5)
        return Ending(20, {"a": DomainEnding(0.5, 0.5, 10, 0.7)}, 0.5, True)

    assert saver.settle_best(settle) is not None
    assert bias.tolist() == [2.0, 2.0]
    saved = read_checkpoint(RunFolder(tmp_path).best)
    assert saved.position.step == 10
    assert saved.tensors["net/heads.0.bias"].tolist() == [1.5, 1.5]
    assert saver.closing_words() == ["epoch 1 is kept, with a mean validation accuracy of 70.0%"]
    assert saver.position.best is not None
    assert saver.position.best.accuracy == 0.6  # other epochs are compared with that


def test_there_is_no_best_state_to_settle_where_none_is_kept_or_someone_removed_it(tmp_path: Path) -> None:
    def settle() -> Ending:
        raise AssertionError

    saver = _saver(tmp_path)
    saver.judge(_report(0, 0.6))
    assert saver.settle_best(settle) is None
    saver = _saver(tmp_path, keep="best")
    assert saver.settle_best(settle) is None
    saver.judge(_report(0, 0.6))
    RunFolder(tmp_path).best.unlink()
    assert saver.settle_best(settle) is None


def test_an_early_end_holds_until_the_run_is_extended(tmp_path: Path) -> None:
    saver = _saver(tmp_path, patience=1)
    saver.judge(_report(0, 0.6))
    saver.judge(_report(1, 0.5))
    saver.save()
    saved = read_checkpoint(RunFolder(tmp_path).checkpoint)
    again = _saver(tmp_path, patience=1)
    again.begin(100, saved)
    assert again.position.is_finished
    rarely = _saver(tmp_path, patience=1, checkpoint_seconds=5.0)
    rarely.begin(100, saved)
    assert rarely.position.is_finished  # nothing that matters has changed
    longer = _saver(tmp_path, patience=5)
    longer.begin(200, saved)
    assert not longer.position.is_finished
    assert longer.position.best == saved.position.best


def test_a_loss_that_is_not_a_number_is_refused_with_its_domain(tmp_path: Path) -> None:
    saver = _saver(tmp_path)
    with pytest.raises(TrainingError, match=r"loss of domain 'a' is not a number at step 3; nothing was saved yet"):
        saver.check(_report(3, 0.5, loss=float("nan")))


def test_a_tally_that_is_not_finite_is_never_saved(tmp_path: Path) -> None:
    learner = Learner(tiny_net(), tiny_recipe())
    saver = Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe))
    saver.begin(10, None)
    saver.save()
    learner.tally_D3[1, 0] = torch.inf
    saver.move_to(4)
    with pytest.raises(TrainingError, match=r"loss of domain 'b' is not a number at step 4; the last good state is in"):
        saver.save()
    assert read_checkpoint(RunFolder(tmp_path).checkpoint).position.step == 0


def test_a_best_epoch_that_is_not_finite_is_never_saved(tmp_path: Path) -> None:
    learner = Learner(tiny_net(), tiny_recipe(budget=1.0, training={"keep": "best"}))
    saver = Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe))
    saver.begin(10, None)
    learner.constraints.sharing_multiplier.fill_(torch.inf)
    with pytest.raises(TrainingError, match="multiplier/sharing is no longer finite at step 0; nothing was saved yet"):
        saver.judge(_report(0, 0.6))
    assert list(tmp_path.iterdir()) == []


def test_the_last_two_states_are_kept_but_never_one_that_was_found_damaged(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)

    def steps() -> list[int]:
        return [read_checkpoint(file).position.step for file in (folder.previous, folder.checkpoint)]

    saver = _saver(tmp_path)
    for step in (1, 2, 3):
        saver.move_to(step)
        saver.save()
    assert steps() == [2, 3]
    folder.checkpoint.write_bytes(b"damaged")
    again = _saver(tmp_path)
    again.begin(100, replace(read_checkpoint(folder.previous), instead_of="it is damaged"))
    for step, expected in ((3, [2, 3]), (4, [3, 4])):
        again.move_to(step)
        again.save()
        assert steps() == expected


def test_a_damaged_best_epoch_is_forgotten_in_words_unless_the_run_is_finished(tmp_path: Path) -> None:
    saver = _saver(tmp_path, keep="best")
    assert saver.forget_damaged_best() is None
    saver.judge(_report(2, 0.6))
    assert saver.forget_damaged_best() is None
    best = saver.position.best
    assert best is not None
    file = RunFolder(tmp_path).best
    file.write_bytes(file.read_bytes()[:-1])
    saver.move_to(100)
    assert saver.forget_damaged_best() is None  # commands that open the run refuse it
    saver.move_to(50)
    words = saver.forget_damaged_best()
    assert words is not None
    assert words.startswith(f"{file} is not a readable checkpoint")
    assert words.endswith("; epoch 3 is lost, so the best of the epochs that follow is kept")
    assert saver.position.best is None


def test_a_run_that_starts_from_another_is_saved_before_its_first_step(tmp_path: Path) -> None:
    learner = Learner(tiny_net(), tiny_recipe(init="elsewhere"))
    saver = Saver(RunFolder(tmp_path), learner, tiny_identity(learner.recipe))
    saver.begin(10, None)
    assert read_checkpoint(RunFolder(tmp_path).checkpoint).position.step == 0
