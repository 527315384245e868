"""Checkpoints come back as they were saved; other files are refused with a reason."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save, save_file

from prunus.checkpoints.checkpoint import FORMAT_VERSION, Position, read_checkpoint, save_checkpoint
from prunus.errors import DamagedFileError, TrainingError
from prunus.learning.learner import Learner
from prunus.sealed import seal, sealable
from tests.makers.tiny_training import tiny_identity, tiny_net, tiny_recipe


@pytest.fixture
def learner() -> Learner:
    return Learner(tiny_net(), tiny_recipe(method={"name": "union", "granularity": "filter"}))


@pytest.fixture
def file(learner: Learner, tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, learner, Position(step=3, total_steps=8), tiny_identity(learner.recipe))
    return path


def _write(path: Path, seals: bool = True, **changes: object) -> Path:
    recipe = tiny_recipe()
    identity = tiny_identity(recipe).model_dump(mode="json")
    header = {"format_version": FORMAT_VERSION, "step": 1, "total_steps": 2, "identity": identity} | changes
    tensors = {"tally": torch.zeros(1)}
    path.write_bytes(seal(save(tensors, sealable(header))) if seals else save(tensors, {"prunus": json.dumps(header)}))
    return path


def test_a_checkpoint_comes_back_as_it_was_saved(learner: Learner, file: Path) -> None:
    checkpoint = read_checkpoint(file)
    assert (checkpoint.position.step, checkpoint.position.total_steps) == (3, 8)
    assert checkpoint.identity == tiny_identity(learner.recipe)
    expected = learner.tensors()
    assert checkpoint.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(checkpoint.tensors[name], tensor), name


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_is_no_checkpoint_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint.safetensors")
    with pytest.raises(DamagedFileError, match="named pipe"):
        read_checkpoint(tmp_path / "checkpoint.safetensors")


def test_the_same_state_is_saved_as_the_same_bytes(learner: Learner, file: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "again", learner, Position(step=3, total_steps=8), tiny_identity(learner.recipe))
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("version", [1, 4, 3.0, "3", None])
def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, version: int | None) -> None:
    file = _write(tmp_path / "checkpoint", format_version=version)
    with pytest.raises(TrainingError, match=f"has checkpoint format {version}, but .* reads format {FORMAT_VERSION}"):
        read_checkpoint(file)


def test_the_current_format_is_read_whoever_wrote_the_file(tmp_path: Path) -> None:
    assert read_checkpoint(_write(tmp_path / "checkpoint")).position.step == 1


def test_a_checkpoint_of_the_version_before_has_no_checksum_and_opens(tmp_path: Path) -> None:
    checkpoint = read_checkpoint(_write(tmp_path / "checkpoint", seals=False, format_version=2))
    assert checkpoint.position.step == 1
    assert checkpoint.identity.validation is None
    with pytest.raises(DamagedFileError, match="it lacks its checksum"):
        read_checkpoint(_write(tmp_path / "checkpoint", seals=False))


def test_a_flipped_bit_anywhere_and_a_file_cut_anywhere_are_noticed(tmp_path: Path) -> None:
    file = _write(tmp_path / "checkpoint")
    whole = file.read_bytes()
    for offset in range(len(whole)):
        for bit in range(8) if offset < 400 else (offset % 8,):  # every bit where names and checksum are
            changed = bytearray(whole)
            changed[offset] ^= 1 << bit
            file.write_bytes(changed)
            with pytest.raises(DamagedFileError, match="is not a readable checkpoint: "):
                read_checkpoint(file)
    for length in range(0, len(whole), 7):
        file.write_bytes(whole[:length])
        with pytest.raises(DamagedFileError, match="is not a readable checkpoint: "):
            read_checkpoint(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": 10**6}, "header: step 1000000 is beyond the last one, 2"),
        ({"step": -1}, "step: Input should be greater than or equal to 0"),
        ({"step": 10**400}, "is beyond the last one"),
        ({"step": "many"}, "step: Input should be a valid integer"),
        ({"total_steps": None}, "total_steps: Input should be a valid integer"),
        ({"best": {"epoch": "x"}}, "best.epoch: Input should be a valid integer"),
        ({"identity": None}, "header: Input should be"),
        ({"identity": []}, "header: Input should be"),
    ],
)
@pytest.mark.parametrize("version", [2, 3])
def test_an_edited_header_is_refused_in_words(
    tmp_path: Path, version: int, changes: dict[str, object], message: str
) -> None:
    file = _write(tmp_path / "checkpoint", seals=version > 2, format_version=version, **changes)
    with pytest.raises(TrainingError, match=f"checkpoint is not a readable checkpoint: .*{message}") as refused:
        read_checkpoint(file)
    assert not isinstance(refused.value, DamagedFileError)  # somebody meant it, so nothing else is read instead


@pytest.mark.parametrize("table", ["domains", "classes", "preprocess"])
def test_a_header_without_a_domain_of_its_recipe_is_refused(tmp_path: Path, table: str) -> None:
    identity = tiny_identity(tiny_recipe()).model_dump(mode="json")
    del identity[table]["b"]
    with pytest.raises(TrainingError, match="header: its domains are not those of its recipe"):
        read_checkpoint(_write(tmp_path / "checkpoint", identity=identity))


def test_a_file_that_the_system_cannot_read_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(DamagedFileError, match=r"is not a readable checkpoint: it is a folder"):
        read_checkpoint(tmp_path / "checkpoint")


def test_the_checkpoint_before_is_kept_under_the_name_that_is_asked_for(learner: Learner, file: Path) -> None:
    before = file.read_bytes()
    other = file.with_name("before")
    save_checkpoint(file, learner, Position(step=4, total_steps=8), tiny_identity(learner.recipe), other)
    assert other.read_bytes() == before
    assert read_checkpoint(file).position.step == 4


def test_a_missing_checkpoint_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no checkpoint at .*gone; train first: prunus\.train"):
        read_checkpoint(tmp_path / "gone")


def test_foreign_and_incomplete_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no checkpoint at all")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare")
    save_file({"a": torch.zeros(1)}, tmp_path / "list", {"prunus": "[]"})
    _write(tmp_path / "other", identity={"recipe": {}})
    for name in ("text", "bare", "list", "other"):
        with pytest.raises(TrainingError, match=f"{name} is not a readable checkpoint"):
            read_checkpoint(tmp_path / name)
