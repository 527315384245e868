"""The public function hands everything on to the training of a backbone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import prunus
from prunus.config import Recipe
from prunus.pretraining.recipe import pretraining_recipe
from prunus.training.observers import Observer
from prunus.verbs import pretrain as module
from tests.conftest import write_domain


def test_a_folder_becomes_a_recipe_and_decoded_images_are_kept_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def stand_in(recipe: Recipe, out: Path, observers: Sequence[Observer], device: str, use_cache: bool) -> None:
        calls.append((recipe, out, list(observers), device, use_cache))

    monkeypatch.setattr(module, "train_backbone", stand_in)
    folder, out = write_domain(tmp_path / "leaves"), tmp_path / "leafy.safetensors"
    recipe = pretraining_recipe(folder)
    watching = [Observer()]
    assert prunus.pretrain(folder, str(out), progress=False) == out
    assert prunus.pretrain(recipe, out, watching, "cpu", use_cache=False) == out
    assert calls == [(recipe, out, [], "auto", True), (recipe, out, watching, "cpu", False)]
