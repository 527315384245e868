"""Training continues from the checkpoint before a damaged one; everything else refuses the damaged one."""

from pathlib import Path

import pytest
import torch

from prunus.checkpoints.checkpoint import Checkpoint, Position, write_checkpoint
from prunus.checkpoints.last import note_about, read_kept, read_last
from prunus.errors import DamagedFileError, TrainingError
from prunus.run_folder import RunFolder
from tests.makers.tiny_training import tiny_identity, tiny_recipe


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run that was saved at steps 3 and 5 of 8."""
    files = RunFolder(tmp_path)
    for step in (3, 5):
        position = Position(step=step, total_steps=8)
        checkpoint = Checkpoint(position, tiny_identity(tiny_recipe()), {"tally": torch.zeros(2)})
        write_checkpoint(files.checkpoint, checkpoint, files.previous)
    return files


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 4
    file.write_bytes(content)


def _step(checkpoint: Checkpoint | None) -> int:
    assert checkpoint is not None
    return checkpoint.position.step


def test_the_newest_checkpoint_is_the_one_without_a_word(folder: RunFolder) -> None:
    assert _step(read_last(folder)) == 5
    assert note_about(read_last(folder)) is None
    assert _step(read_kept(folder, keeps_best=True)) == 5


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert read_last(RunFolder(tmp_path)) is None
    assert note_about(None) is None
    with pytest.raises(TrainingError, match=r"no checkpoint at .*; train first"):
        read_kept(RunFolder(tmp_path), keeps_best=False)


def test_training_continues_from_the_checkpoint_before_a_damaged_one_and_says_so(folder: RunFolder) -> None:
    _flip(folder.checkpoint)
    assert _step(read_last(folder)) == 3
    assert note_about(read_last(folder)) == (
        f"{folder.checkpoint} is not a readable checkpoint: its checksum does not match its content; "
        "training continues from the checkpoint before it, at step 3 of 8"
    )


def test_training_continues_from_the_checkpoint_before_a_missing_one(folder: RunFolder) -> None:
    folder.checkpoint.unlink()
    assert _step(read_last(folder)) == 3
    assert "checkpoint.safetensors is missing; training continues" in (note_about(read_last(folder)) or "")


def test_without_a_checkpoint_before_it_a_damaged_one_is_refused_with_the_remedy(folder: RunFolder) -> None:
    folder.previous.unlink()
    _flip(folder.checkpoint)
    with pytest.raises(DamagedFileError, match=r"no previous.safetensors beside it .*; restore .* or remove both to"):
        read_last(folder)


def test_two_damaged_checkpoints_are_refused_with_both_names(folder: RunFolder) -> None:
    _flip(folder.checkpoint)
    _flip(folder.previous)
    with pytest.raises(DamagedFileError, match=r"checkpoint.safetensors is not .*previous.safetensors is not .*remove"):
        read_last(folder)


def test_a_checkpoint_of_another_format_is_no_damage_that_older_state_replaces(folder: RunFolder) -> None:
    content = folder.previous.read_bytes()
    position = Position(step=8, total_steps=8).model_copy(update={"step": 9})
    write_checkpoint(folder.checkpoint, Checkpoint(position, tiny_identity(tiny_recipe()), {}))
    with pytest.raises(TrainingError, match="step 9 is beyond the last one, 8"):
        read_last(folder)
    assert folder.previous.read_bytes() == content


def test_a_damaged_newest_checkpoint_is_never_replaced_for_readers(folder: RunFolder) -> None:
    _flip(folder.checkpoint)
    with pytest.raises(DamagedFileError, match=r"; continue from the checkpoint before it with: prunus\.resume"):
        read_kept(folder, keeps_best=False)
    folder.checkpoint.unlink()
    with pytest.raises(TrainingError, match=r"is missing; continue from the checkpoint before it with: prunus\.resume"):
        read_kept(folder, keeps_best=False)
    folder.previous.rename(folder.checkpoint)
    _flip(folder.checkpoint)
    with pytest.raises(DamagedFileError, match="; restore it from a backup, or train the run again"):
        read_kept(folder, keeps_best=False)


def test_a_damaged_best_epoch_is_refused_with_its_own_remedy(folder: RunFolder) -> None:
    folder.best.write_bytes(folder.previous.read_bytes())
    assert _step(read_kept(folder, keeps_best=True)) == 3
    assert _step(read_kept(folder, keeps_best=False)) == 5
    _flip(folder.best)
    with pytest.raises(DamagedFileError, match=r"best.safetensors is not .*remove it to use the last state"):
        read_kept(folder, keeps_best=True)
