"""SIGKILL at 20 moments of a run, some of them while a checkpoint is written, changes nothing in how it ends."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.checkpoint import read_checkpoint
from tests.conftest import write_domain
from tests.makers.killed_training import WRITING, Kill

pytestmark = pytest.mark.slow  # trains

ROOT = Path(__file__).parents[2]
KILLS = 20


def test_a_run_that_is_killed_20_times_ends_with_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    training = {
        "epochs": 40,
        "batch_size": 4,
        "lr": 0.05,
        "schedule": "cosine",
        "warmup_epochs": 2.0,
        "keep": "best",
        "checkpoint_seconds": 0.02,
    }
    domains = [str(write_domain(tmp_path / name, train=4, validation=2)) for name in ("one", "two")]
    backbone = {"name": "wrn14_2", "size": 16, "resize": 18}
    recipe = parse_recipe({"backbone": backbone, "domains": domains, "budget": 0.5, "training": training})
    file = tmp_path / "recipe.json"
    file.write_text(recipe.model_dump_json())
    command = [sys.executable, "-m", "tests.makers.killed_training", str(file), str(tmp_path), str(KILLS), "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    kills = [Kill(**kill) for kill in json.loads(done.stdout)]
    assert [kill.was_killed for kill in kills] == [True] * KILLS
    assert all(kill.left_partial_file for kill in kills if kill.event in WRITING[:2])
    assert Counter(kill.event in WRITING for kill in kills)[True] >= KILLS / 2
    straight, killed = RunFolder(tmp_path / "straight"), RunFolder(tmp_path / "killed")
    assert_same(straight.checkpoint, killed.checkpoint)
    assert [(entry.epoch, entry.domains) for entry in killed.epochs()] == [
        (entry.epoch, entry.domains) for entry in straight.epochs()
    ]
    assert list(killed.path.glob(".*.tmp")) == []


def assert_same(first: Path, second: Path) -> None:
    ours, theirs = read_checkpoint(first), read_checkpoint(second)
    assert ours.step == theirs.step == ours.total_steps
    assert ours.tensors.keys() == theirs.tensors.keys()
    assert [name for name, tensor in ours.tensors.items() if not torch.equal(tensor, theirs.tensors[name])] == []
