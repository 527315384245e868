"""The results that `evaluate` leaves in a run folder are those that it returns, with what a report needs besides."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import prunus
from prunus.errors import StorageError
from prunus.evaluation.classifying import classify_measurable
from prunus.evaluation.results import evaluation_of
from prunus.evaluation.run_subject import open_frozen_features
from prunus.evaluation.saved import read_saved
from prunus.files import write_json
from prunus.measure.evaluation import Evaluation
from prunus.run_folder import RunFolder

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoint_format_3" / "run"  # unfinished, and quickly trained


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path / "run"))


def test_a_measured_run_holds_its_results_with_its_recipe(run: Path) -> None:
    measured = prunus.evaluate(run, device="cpu", use_cache=False)
    folder = RunFolder(run)
    saved = read_saved(folder)
    assert saved is not None
    assert saved.model_copy(update={"seconds": None, "recipe": None}) == measured
    assert saved.recipe is not None
    assert saved.recipe["backbone"] == json.loads(folder.recipe.read_text())["backbone"]
    assert saved.baselines == {}  # a run fits classifiers to its frozen backbone when it ends
    assert not folder.is_outdated(folder.results)


@pytest.mark.slow
def test_the_frozen_backbone_of_a_finished_run_is_saved_as_a_baseline(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    domains = [str(make_domain(f"data/{name}", classes=("a", "b"), train=4)) for name in ("birds", "flowers")]
    recipe = {"backbone": "wrn14_2", "domains": domains, "budget": 0.5, "training": {"epochs": 1}}
    run = prunus.train(prunus.parse_recipe(recipe), tmp_path / "run", device="cpu", use_cache=False)
    measured = prunus.evaluate(run, device="cpu", use_cache=False)
    saved = read_saved(RunFolder(run))
    assert saved is not None
    assert saved.seconds is not None
    assert saved.seconds > 0
    frozen = open_frozen_features(run, "cpu")
    expected = evaluation_of(frozen, "test", classify_measurable(frozen, "test", use_cache=False))
    baseline = saved.baselines["feature"]
    assert baseline.accuracies == expected.accuracies == measured.frozen_accuracies
    alone = {"domains", "by_class"}
    assert baseline.model_dump(exclude=alone) == expected.model_dump(exclude=alone)
    for name, domain in baseline.domains.items():
        assert (domain.usage, domain.macs, domain.images) == (1.0, expected.domains[name].macs, domain.images)


def test_results_that_cannot_be_written_are_returned_all_the_same(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: object) -> None:
        raise StorageError(f"cannot write {path}: the disk is full")

    monkeypatch.setattr("prunus.evaluation.saved.write_json", full)
    with pytest.warns(UserWarning, match="measured but not saved: cannot write .*the disk is full"):
        assert prunus.evaluate(run, device="cpu", use_cache=False).mean_accuracy >= 0
    assert not RunFolder(run).results.exists()


def test_what_is_not_a_result_is_not_read(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert read_saved(folder) is None
    folder.results.write_text("{}")
    assert read_saved(folder) is None
    content = json.loads((GOLDEN.parents[1] / "results_0.1.0" / "results.json").read_text())
    write_json(folder.results, content)
    assert read_saved(folder) == Evaluation.model_validate(content)
