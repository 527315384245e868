"""Public functions take paths or objects, and refuse anything else at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import prunus
from prunus.bundle.file import write_bundle
from prunus.errors import BundleError, PrunusError, RecipeError, TrainingError
from prunus.verbs.arguments import as_recipe, model_path, run_folder_for
from tests.makers.graph_bundles import random_bundle, varied_graph
from tests.makers.tiny_training import tiny_recipe

TEXT = 'backbone = "wrn14_2"\ndomains = ["birds"]\n'


def test_a_recipe_may_be_a_file_or_an_object(tmp_path: Path) -> None:
    path = tmp_path / "first.toml"
    path.write_text(TEXT)
    assert as_recipe(path) == as_recipe(str(path)) == prunus.load_recipe(path)
    recipe = tiny_recipe()
    assert as_recipe(recipe) is recipe


def test_a_new_run_is_named_after_its_recipe_file() -> None:
    assert run_folder_for("recipes/first.toml", None) == Path("runs/first")
    assert run_folder_for("recipes/first.toml", "out") == run_folder_for(tiny_recipe(), Path("out")) == Path("out")
    with pytest.raises(RecipeError, match=r"name the folder of the new run, as in prunus\.train"):
        run_folder_for(tiny_recipe(), None)


def test_a_model_may_be_a_path_or_a_predictor(tmp_path: Path) -> None:
    path = tmp_path / "model.prunus"
    write_bundle(path, random_bundle(varied_graph(0), 12))
    assert model_path(prunus.Predictor(path)) == model_path(str(path)) == path
    assert prunus.inspect(prunus.Predictor(path)) == prunus.inspect(path)
    assert prunus.card(prunus.Predictor(path)) == prunus.card(str(path))


def _any(value: object) -> Any:  # noqa: ANN401
    return value


WRONG: dict[str, Callable[[], object]] = {
    "train": lambda: prunus.train(_any({"backbone": "wrn14_2"}), "run"),
    "train without a recipe": lambda: prunus.train(_any(None)),
    "train into a number": lambda: prunus.train(tiny_recipe(), _any(3)),
    "resume": lambda: prunus.resume(_any(3)),
    "resume with": lambda: prunus.resume("run", recipe=_any(3)),
    "plan": lambda: prunus.plan(_any(3)),
    "pretrain": lambda: prunus.pretrain(_any(3), "out.safetensors"),
    "compare": lambda: prunus.compare(_any(3), "out"),
    "sweep": lambda: prunus.sweep(_any(3), "out"),
    "evaluate": lambda: prunus.evaluate(_any(3)),
    "prune": lambda: prunus.prune(_any(3), "model.prunus"),
    "prune into": lambda: prunus.prune("run", _any(None)),
    "bench": lambda: prunus.bench(_any(3)),
    "card": lambda: prunus.card(_any(3)),
    "export": lambda: prunus.export(_any(3), "onnx"),
    "inspect": lambda: prunus.inspect(_any(3)),
    "load_network": lambda: prunus.load_network(_any(3)),
    "serve": lambda: prunus.serve(_any(3)),
    "submit": lambda: prunus.submit(_any(3), "out.zip"),
    "write_report": lambda: prunus.write_report([_any(3)]),
    "Predictor": lambda: prunus.Predictor(_any(3)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_is_refused_with_what_is_expected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PrunusError, match=r"must be (a|the) path.*, got ({'backbone': 'wrn14_2'}|3|None)"):
        WRONG[name]()
    assert list(tmp_path.iterdir()) == []


def test_every_error_class_is_public() -> None:
    classes = [kind for kind in vars(prunus.errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    assert len(classes) > 10
    assert [kind.__name__ for kind in classes if getattr(prunus, kind.__name__, None) is not kind] == []


def test_a_missing_run_and_a_folder_of_runs_are_refused_with_what_may_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("look", "second"):
        Path("runs", name).mkdir(parents=True)
        Path("runs", name, "recipe.json").write_text("{}")
    for use in (prunus.evaluate, lambda run: prunus.prune(run, "model.prunus")):
        with pytest.raises(BundleError, match=r"^there is no run and no model file runs/lok; did you mean 'runs/look'"):
            use("runs/lok")
        with pytest.raises(BundleError, match=r"^there is no run and no model file elsewhere/run$"):
            use("elsewhere/run")
        with pytest.raises(
            TrainingError, match=r"^runs is a folder of runs; name one of them: runs/look, runs/second$"
        ):
            use("runs")
