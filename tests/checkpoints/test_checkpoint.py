"""Checkpoints come back as they were saved; other files are refused with a reason."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from prunus.checkpoints.checkpoint import FORMAT_VERSION, Position, read_checkpoint, save_checkpoint
from prunus.errors import TrainingError
from prunus.learning.learner import Learner
from tests.makers.tiny_training import tiny_identity, tiny_net, tiny_recipe


@pytest.fixture
def learner() -> Learner:
    return Learner(tiny_net(), tiny_recipe(method={"name": "union", "granularity": "filter"}))


@pytest.fixture
def file(learner: Learner, tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint.safetensors"
    save_checkpoint(path, learner, Position(step=3, total_steps=8), tiny_identity(learner.recipe))
    return path


def _write(path: Path, **changes: object) -> Path:
    recipe = tiny_recipe()
    identity = tiny_identity(recipe).model_dump(mode="json")
    header = {"format_version": FORMAT_VERSION, "step": 1, "total_steps": 2, "identity": identity} | changes
    save_file({"tally": torch.zeros(1)}, path, {"prunus": json.dumps(header)})
    return path


def test_a_checkpoint_comes_back_as_it_was_saved(learner: Learner, file: Path) -> None:
    checkpoint = read_checkpoint(file)
    assert (checkpoint.position.step, checkpoint.position.total_steps) == (3, 8)
    assert checkpoint.identity == tiny_identity(learner.recipe)
    expected = learner.tensors()
    assert checkpoint.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(checkpoint.tensors[name], tensor), name


def test_the_same_state_is_saved_as_the_same_bytes(learner: Learner, file: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "again", learner, Position(step=3, total_steps=8), tiny_identity(learner.recipe))
    assert (tmp_path / "again").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("version", [1, 3, None])
def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path, version: int | None) -> None:
    file = _write(tmp_path / "checkpoint", format_version=version)
    with pytest.raises(TrainingError, match=f"has checkpoint format {version}, but .* reads format {FORMAT_VERSION}"):
        read_checkpoint(file)


def test_the_current_format_is_read_whoever_wrote_the_file(tmp_path: Path) -> None:
    assert read_checkpoint(_write(tmp_path / "checkpoint")).position.step == 1


def test_a_missing_checkpoint_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"no checkpoint at .*gone; train first: prunus train"):
        read_checkpoint(tmp_path / "gone")


def test_foreign_and_incomplete_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no checkpoint at all")
    save_file({"a": torch.zeros(1)}, tmp_path / "bare")
    save_file({"a": torch.zeros(1)}, tmp_path / "list", {"prunus": "[]"})
    _write(tmp_path / "other", identity={"recipe": {}})
    for name in ("text", "bare", "list", "other"):
        with pytest.raises(TrainingError, match=f"{name} is not a readable checkpoint"):
            read_checkpoint(tmp_path / name)
