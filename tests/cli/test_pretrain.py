"""`prunus pretrain`: what it passes on and prints, without a training run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from prunus.backbone.card import write_backbone
from prunus.cli.app import app
from tests.makers.backbone_cards import tiny_card

FILE = Path("b/mine.safetensors")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Return the arguments of every pretraining that was asked for, which then writes its file."""
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> Path:  # noqa: ANN401
        seen.append(arguments)
        if not FILE.exists():
            write_backbone(FILE, {"a": torch.zeros(1)}, tiny_card(), "{}")
        return FILE

    monkeypatch.setattr("prunus.pretrain", record)
    return seen


def test_options_become_a_recipe_and_the_result_is_printed(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    options = ["--backbone", "wrn14_2", "--size", "24", "--epochs", "3", "--set", "training.lr=0.3", "--no-cache"]
    result = CliRunner().invoke(app, ["pretrain", "leaves", "--out", "b/mine.safetensors", *options])
    assert result.exit_code == 0, result.exception
    recipe, out, _, device, use_cache = calls[0]
    assert (recipe.backbone.name, recipe.backbone.size, recipe.backbone.weights) == ("wrn14_2", 24, "random")
    assert (recipe.training.epochs, recipe.training.lr) == (3, 0.3)
    assert (recipe.domains[0].path, out) == (str(tmp_path / "leaves"), Path("b/mine.safetensors"))
    assert (device, use_cache) == ("auto", False)
    assert result.output == (
        "b/mine.safetensors: wrn14_2 at 24 px, 2 classes, 80 images, validation accuracy 75.0 %, 120 images/s\n"
        'Use it in a recipe: backbone = { name = "wrn14_2", weights = "b/mine.safetensors" }\n'
    )


def test_what_is_not_known_is_not_printed(calls: list[tuple[Any, ...]]) -> None:
    card = tiny_card().model_copy(update={"accuracy": None, "images_per_second": None})
    write_backbone(FILE, {"a": torch.zeros(1)}, card, "{}")
    result = CliRunner().invoke(app, ["pretrain", "leaves", "--out", str(FILE)])
    assert result.output.startswith(f"{FILE}: wrn14_2 at 24 px, 2 classes, 80 images\n")
    assert len(calls) == 1


def test_one_of_several_processes_talks_to_the_user(
    calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunus.parallel.joining.is_first_process", lambda: False)
    assert CliRunner().invoke(app, ["pretrain", "leaves", "--out", str(FILE)]).output == ""
    assert len(calls) == 1
