"""Whole runs with a teacher: who teaches what is said, kept with the run, and the same when it continues."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from typing_extensions import override

from prunus.checkpoints import checkpoint
from prunus.checkpoints.checkpoint import Identity, Position, read_checkpoint
from prunus.config import Recipe
from prunus.errors import TrainingInterrupted
from prunus.learning.learner import Learner
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training import run as runs
from prunus.training import saving
from prunus.training.observers import Observer
from prunus.training.run import TrainedRun, open_run, resume_run, start_run
from prunus.training.teachers import read_reasons
from tests.conftest import write_domain
from tests.makers.process_groups import Results, start_ranks
from tests.makers.stopping import StopAt

pytestmark = pytest.mark.slow  # trains


def _recipe(folder: Path, **training: object) -> Recipe:
    """Two tiny domains without validation images; the backbone was pretrained on the first."""
    for name in ("one", "two"):
        write_domain(folder / name)
    settings = {"epochs": 2, "batch_size": 4, "splits": "train+validation", "strategy": "mixed"} | training
    backbone = {"name": "wrn14_2", "size": 16, "resize": 18}
    domains = [{"path": str(folder / "one"), "source": True}, str(folder / "two")]
    content = {"backbone": backbone, "domains": domains, "budget": 0.5, "teacher": "finetune", "training": settings}
    return parse_recipe(content)


class Notes(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    @override
    def noted(self, message: str) -> None:
        self.said.append(message)

    @property
    def of_backbone(self) -> list[str]:
        return [message for message in self.said if message.startswith("the unchanged backbone")]


def test_a_source_is_taught_by_the_backbone_and_a_continued_run_keeps_its_teachers(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path)
    notes, later = Notes(), Notes()
    start_run(recipe, tmp_path / "whole", [notes], "cpu", use_cache=False)
    (said,) = notes.of_backbone
    assert "teaches domain 'one': it was pretrained on this domain" in said
    folder = RunFolder(tmp_path / "stopped")
    with pytest.raises(TrainingInterrupted):
        start_run(recipe, folder.path, [StopAt(2)], "cpu", use_cache=False)
    if not folder.checkpoint.exists():  # the signal stopped the teacher
        with pytest.raises(TrainingInterrupted):
            start_run(recipe, folder.path, [StopAt(2)], "cpu", use_cache=False)
    RunFolder(folder.teacher).ending.unlink()  # from which it would be decided again
    resume_run(folder.path, [later], "cpu", use_cache=False)
    assert later.of_backbone == [said]
    assert read_reasons(folder) == {"one": said.partition(": ")[2]}
    whole, continued = (read_checkpoint(RunFolder(tmp_path / name).checkpoint) for name in ("whole", "stopped"))
    assert [name for name, tensor in whole.tensors.items() if not torch.equal(tensor, continued.tensors[name])] == []
    domains = tuple(domain.model_copy(update={"source": False}) for domain in recipe.domains)
    start_run(recipe.model_copy(update={"domains": domains}), tmp_path / "other", device="cpu", use_cache=False)
    other = read_checkpoint(RunFolder(tmp_path / "other").checkpoint)  # taught by fine-tuned networks alone
    assert any(not torch.equal(tensor, other.tensors[name]) for name, tensor in whole.tensors.items())


def _train(recipe: Recipe, out: Path, rank: int) -> Results:
    """Train in two processes, of which the first writes its files late; return whether each met a finished teacher."""
    opened: list[bool] = []

    def slowly(path: Path, learner: Learner, position: Position, identity: Identity, keep: Path | None = None) -> None:
        time.sleep(0.5)
        checkpoint.save_checkpoint(path, learner, position, identity, keep)

    def watched(path: Path, device: str = "auto") -> TrainedRun:
        opened.append(read_checkpoint(RunFolder(path).checkpoint).position.is_finished)
        return open_run(path, device)

    saving.save_checkpoint = slowly  # type: ignore[attr-defined]
    runs.open_run = watched
    start_run(recipe, out, device="cpu", use_cache=False)
    return {"opened": torch.tensor(opened)}


def test_no_process_learns_from_a_teacher_that_is_not_finished(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, checkpoint_seconds=1e-9)
    results: Sequence[Results] = start_ranks(partial(_train, recipe, tmp_path / "run"), 2, tmp_path)
    assert [result["opened"].tolist() for result in results] == [[True], [True]]
