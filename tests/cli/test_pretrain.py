"""`prunus pretrain`: what it passes on and prints, without a training run."""

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from prunus.backbone.card import write_backbone
from prunus.cli.app import app
from tests.makers.backbone_cards import tiny_card


def test_options_become_a_recipe_and_the_result_is_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[Any, ...]] = []

    def record(*arguments: Any) -> Path:  # noqa: ANN401
        calls.append(arguments)
        write_backbone(Path("b/mine.safetensors"), {"a": torch.zeros(1)}, tiny_card(), "{}")
        return Path("b/mine.safetensors")

    monkeypatch.setattr("prunus.pretrain", record)
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
