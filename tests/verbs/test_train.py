"""What `train` says before and after a run."""

from pathlib import Path

import pytest

import prunus
from prunus.errors import RecipeError
from prunus.run_folder import RunFolder
from prunus.verbs import train
from tests.makers.tiny_training import tiny_recipe


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("ba2", "prunus evaluate {run}, then prunus prune {run} --out model.prunus"),
        ("finetune", "prunus evaluate {run}"),  # no model file can hold a network per domain
    ],
)
def test_the_next_commands_are_those_that_the_method_allows(tmp_path: Path, method: str, expected: str) -> None:
    RunFolder(tmp_path).recipe.write_text(tiny_recipe(method=method).model_dump_json())
    assert train.next_steps(tmp_path) == expected.format(run=tmp_path)


def test_a_network_that_no_file_can_hold_is_not_to_be_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RunFolder(tmp_path).recipe.write_text(tiny_recipe(method="ba2").model_dump_json())
    monkeypatch.setattr(train, "file_warning", lambda _recipe: "no file can hold it")
    assert train.next_steps(tmp_path) == f"prunus evaluate {tmp_path}"


def test_only_the_first_of_several_processes_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "is_first_process", lambda: False)
    assert train.next_steps(tmp_path) is None


def test_a_recipe_without_a_folder_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(RecipeError, match="name the folder of the new run"):
        prunus.train(tiny_recipe())
