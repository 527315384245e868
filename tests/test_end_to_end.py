"""The whole job: a user's own data goes through every command."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import prunus
from prunus.cli.app import app
from prunus.runtime.inputs import ImageSource
from tests.conftest import write_domain
from tests.makers.measured import assert_same_results

pytestmark = pytest.mark.slow  # trains


def _run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def _train(root: Path) -> Path:
    """Train on two tiny domains through the command line."""
    write_domain(root / "data" / "birds", classes=("owl", "wren"), train=6)
    write_domain(root / "data" / "flowers", classes=("rose", "tulip", "iris"), train=6)
    recipe = root / "recipe.toml"
    recipe.write_text(
        'preset = "paper"\nbackbone = "wrn14_2"\ndomains = ["data/birds", "data/flowers"]\nbudget = 0.5\n'
        "[training]\nepochs = 2\nlr = 0.05\n[evaluation]\ncrops = 5\n"
    )
    result = _run("train", recipe, "--out", root / "run", "--device", "cpu")
    assert result.exit_code == 0
    assert "prunus evaluate" in result.output
    return root / "run"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A run that a test may change, with its data."""
    return _train(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that tests only read; its data lie beside it."""
    root = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(root / "cache"))
        return _train(root)


def test_a_users_own_domains_go_through_every_command(trained: Path, tmp_path: Path) -> None:
    model, data = tmp_path / "model.prunus", trained.parent / "data"
    assert "flowers" in _run("evaluate", trained).output
    assert "of the kernels kept" in _run("prune", trained, "--out", model).output
    of_run = json.loads(_run("evaluate", trained, "--json").output)
    of_file = json.loads(_run("evaluate", model, "--data", data, "--json").output)
    for domain in of_run["domains"].values():  # only a run keeps classifiers for the frozen backbone
        assert domain.pop("frozen_accuracy") > 0
    for domain in of_file["domains"].values():
        assert domain.pop("frozen_accuracy", None) is None
    assert_same_results(of_run, of_file)
    assert of_run["domains"]["birds"]["crops"] == 5
    image = data / "flowers" / "test" / "iris" / "0.png"
    found = json.loads(_run("predict", model, image, image, "--domain", "flowers", "--json").output)
    assert [entry["image"] for entry in found] == [str(image)] * 2
    probabilities = [p["probability"] for p in found[0]["predictions"]]
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)
    assert probabilities == sorted(probabilities, reverse=True)
    assert {p["label"] for p in found[0]["predictions"]} == {"rose", "tulip", "iris"}
    assert "iris" in _run("predict", model, image, "--domain", "flowers", "--top", "3").output


def test_resuming_a_finished_run_changes_nothing(own: Path) -> None:
    before = (own / "checkpoint.safetensors").read_bytes()
    assert _run("train", "--resume", own, "--device", "cpu").exit_code == 0
    assert (own / "checkpoint.safetensors").read_bytes() == before


def test_a_model_file_does_not_tell_where_its_data_lay(trained: Path, tmp_path: Path) -> None:
    prunus.prune(trained, tmp_path / "m.prunus")
    assert str(trained.parent).encode() not in (tmp_path / "m.prunus").read_bytes()
    with pytest.raises(prunus.PrunusError, match="name their folder with the argument data='DIR'"):
        prunus.evaluate(tmp_path / "m.prunus")


def test_other_classes_than_the_models_are_refused(own: Path, tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / "data" / "birds" / split / "owl").rename(tmp_path / "data" / "birds" / split / "hawk")
    with pytest.raises(prunus.PrunusError, match="are not those the model was trained on"):
        prunus.evaluate(own)


def test_scores_appear_where_the_recipe_knows_what_to_compare_with(trained: Path, tmp_path: Path) -> None:
    assert prunus.evaluate(trained).scores is None
    names = ("birds", "flowers")
    domains = [
        {"name": n, "path": str(trained.parent / "data" / n), "finetune_accuracy": 0.5, "feature_accuracy": 0.25}
        for n in names
    ]
    recipe = prunus.parse_recipe(
        {"preset": "paper", "backbone": "wrn14_2", "domains": domains, "training": {"epochs": 1}}
    )
    results = prunus.evaluate(prunus.train(recipe, tmp_path / "scored"))
    expected = sum(1000 * accuracy**2 for accuracy in results.accuracies.values())  # E_max is 1 here
    scores = results.scores
    assert scores is not None
    assert scores.s == pytest.approx(expected)
    assert scores.s_o == pytest.approx(expected / results.macs_ratio)
    assert scores.s_p == pytest.approx(expected / results.params_ratio)
    assert scores.s_o is not None
    assert scores.s_p is not None
    assert scores.s_e == pytest.approx(scores.s_o * scores.s_p / (2 * 1000 * 0.25**2) ** 2)


def test_predicting_with_a_wrong_domain_or_image_is_one_clear_error(trained: Path, tmp_path: Path) -> None:
    predictor = prunus.Predictor(prunus.prune(trained, tmp_path / "m.prunus"))
    with pytest.raises(prunus.PrunusError, match="unknown domain 'flower'; did you mean 'flowers'"):
        predictor.predict(trained.parent / "data" / "birds" / "test" / "owl" / "0.png", domain="flower")
    with pytest.raises(prunus.PrunusError, match="there is no image"):
        predictor.predict(tmp_path / "none.png", domain="flowers")
    for array in (np.zeros((4, 4, 3), dtype=np.int64), np.zeros((4, 4, 7), dtype=np.uint8)):
        with pytest.raises(prunus.PrunusError, match="an image array must be"):
            predictor.predict(array, domain="flowers")
    with pytest.raises(prunus.PrunusError, match="crops must be one of 1, 5, 10, got 3"):
        predictor.predict(trained.parent / "data" / "birds" / "test" / "owl" / "0.png", domain="birds", crops=3)
    with pytest.raises(prunus.PrunusError, match="the device 'nonsense' cannot be used"):
        prunus.evaluate(tmp_path / "m.prunus", data=trained.parent / "data", device="nonsense")
    assert predictor.predict([], domain="flowers") == []


@pytest.mark.parametrize("kind", ["path", "text", "bytes", "array", "pillow"])
def test_an_image_may_come_in_any_form(trained: Path, tmp_path: Path, kind: str) -> None:
    predictor = prunus.Predictor(prunus.prune(trained, tmp_path / "m.prunus"))
    path = trained.parent / "data" / "birds" / "test" / "owl" / "0.png"
    image = Image.open(path)
    forms: dict[str, ImageSource] = {
        "path": path,
        "text": str(path),
        "bytes": path.read_bytes(),
        "array": np.asarray(image),
        "pillow": image,
    }
    assert predictor.predict(forms[kind], "birds") == predictor.predict(path, "birds")
