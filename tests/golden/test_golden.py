"""Files of every released format open and return the answers that the version that wrote them computed."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import BaseModel
from safetensors.numpy import load_file

import prunus
from prunus.arrays import Floats
from prunus.bundle import header
from prunus.bundle.file import read_bundle
from prunus.checkpoints import checkpoint
from prunus.evaluation.subject import open_subject
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.comparison import Comparison
from prunus.measure.evaluation import Evaluation
from prunus.measure.speed import Benchmark
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.training.run import open_run

GOLDEN = Path(__file__).parent
ROOT = GOLDEN.parents[1]
MODELS = sorted(GOLDEN.glob("model_format_*/*.prunus"))
RUNS = sorted(GOLDEN.glob("checkpoint_format_*/*/recipe.json"))
FIRST = {"model": 3, "checkpoint": 2}  # the first versions that later code must read
CURRENT = {"model": header.FORMAT_VERSION, "checkpoint": checkpoint.FORMAT_VERSION}
MODEL_IDS = [f"{path.parent.name}/{path.stem}" for path in MODELS]


def expected_logits(path: Path) -> tuple[Floats, dict[str, Floats]]:
    arrays = load_file(path.with_name(f"{path.stem}.expected.safetensors"))
    return arrays.pop("images"), {name.removeprefix("logits/"): logits for name, logits in arrays.items()}


def assert_close(logits: Floats, expected: Floats) -> None:
    assert logits.shape == expected.shape
    assert np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("path", MODELS, ids=MODEL_IDS)
def test_a_model_file_returns_the_logits_of_the_version_that_wrote_it(path: Path) -> None:
    images, expected = expected_logits(path)
    predictor, engine = prunus.Predictor(path), NumpyEngine(read_bundle(path))
    assert list(read_bundle(path).domains) == list(expected)
    for domain, logits in expected.items():
        assert_close(predictor.logits(images, domain), logits)
        assert_close(engine.logits(images, domain), logits)


@pytest.mark.parametrize("path", MODELS, ids=MODEL_IDS)
def test_the_answers_of_a_golden_model_depend_on_the_image(path: Path) -> None:
    for logits in expected_logits(path)[1].values():
        assert np.abs(logits[0] - logits[1]).max() >= 1e-3 * np.abs(logits).max()


@pytest.mark.parametrize("recipe", RUNS, ids=lambda path: path.parent.parent.name)
def test_a_run_opens_and_returns_the_logits_of_the_version_that_trained_it(recipe: Path) -> None:
    images, expected = expected_logits(recipe.parent)
    net = open_run(recipe.parent, "cpu").net
    assert list(net.domains) == list(expected)
    for domain, logits in expected.items():
        with torch.no_grad():
            assert_close(net(torch.from_numpy(images), domain).numpy(), logits)


@pytest.mark.parametrize("recipe", RUNS, ids=lambda path: path.parent.parent.name)
def test_pruning_an_old_run_writes_a_file_with_its_answers_that_is_no_larger(recipe: Path, tmp_path: Path) -> None:
    images, expected = expected_logits(recipe.parent)
    small = prunus.Predictor(prunus.prune(recipe.parent, tmp_path / "small.prunus"))
    for domain, logits in expected.items():
        assert_close(small.logits(images, domain), logits)
    half = prunus.prune(recipe.parent, tmp_path / "half.prunus", dtype="float16")
    before = GOLDEN / "model_format_3" / "trained.prunus"
    record = len(read_bundle(half).manifest.provenance["channels"]) + len('"channels":"",')  # earlier files have none
    assert half.stat().st_size - record <= before.stat().st_size + 100  # names of versions have other lengths
    assert record < 350


@pytest.mark.parametrize("recipe", RUNS, ids=lambda path: path.parent.parent.name)
def test_an_old_file_has_the_defaults_of_the_version_that_wrote_it(recipe: Path) -> None:
    trained = json.loads(recipe.read_text())["training"]
    read = open_subject(GOLDEN / "model_format_3" / "trained.prunus", "cpu").recipe.training.model_dump(mode="json")
    assert {key: read[key] for key in trained} == trained
    assert read == open_run(recipe.parent, "cpu").recipe.training.model_dump(mode="json")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RUNS, ids=lambda path: path.parent.parent.name)
def test_an_old_run_resumes_where_it_stopped(recipe: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(recipe.parent, tmp_path / "run"))
    steps = checkpoint.read_checkpoint(run / "checkpoint.safetensors")
    assert steps.position.step < steps.position.total_steps
    prunus.resume(run, device="cpu", use_cache=False)
    assert checkpoint.read_checkpoint(run / "checkpoint.safetensors").position.step == steps.position.total_steps


def test_old_results_and_speeds_are_reported(tmp_path: Path) -> None:
    for version in GOLDEN.glob("results_*"):
        run = Path(shutil.copytree(RUNS[0].parent, tmp_path / version.name))
        for name in ("results.json", "bench.json"):
            shutil.copy(version / name, run / name)
    report = prunus.write_report(tmp_path, tmp_path / "report.html")
    assert report.left_out == {}
    text = report.page.read_text()
    for version in GOLDEN.glob("results_*"):
        assert json.loads((version / "bench.json").read_text())["machine"] in text


@pytest.mark.parametrize(
    ("name", "model"), [("results.json", Evaluation), ("comparison.json", Comparison), ("bench.json", Benchmark)]
)
def test_old_results_are_read_with_every_key_and_value(name: str, model: type[BaseModel]) -> None:
    for version in GOLDEN.glob("results_*"):
        content = json.loads((version / name).read_text())
        read = model.model_validate(content).model_dump(mode="json")
        assert _without_new_keys(read, content) == content


def _without_new_keys(read: Any, old: Any) -> Any:  # noqa: ANN401  # JSON
    if isinstance(old, dict):
        return {key: _without_new_keys(read[key], value) for key, value in old.items()}
    if isinstance(old, list) and len(read) == len(old):
        return [_without_new_keys(*pair) for pair in zip(read, old, strict=True)]
    return read


def test_the_costs_of_an_old_run_are_the_ones_that_were_measured() -> None:
    expected = Evaluation.model_validate_json((GOLDEN / "results_0.1.0" / "results.json").read_text())
    costs = bundle_costs(read_bundle(GOLDEN / "model_format_3" / "trained.prunus"))
    assert costs.union() == pytest.approx(expected.union)
    assert costs.dense_macs() == expected.dense_macs
    for domain, measured in expected.domains.items():
        assert costs.usage(domain) == pytest.approx(measured.usage)


@pytest.mark.parametrize("kind", FIRST)
def test_every_format_version_has_a_golden_file_and_a_row_in_the_table_of_formats(kind: str) -> None:
    versions = range(FIRST[kind], CURRENT[kind] + 1)
    folders = {path.name for path in GOLDEN.glob(f"{kind}_format_*") if any(path.iterdir())}
    assert folders == {f"{kind}_format_{version}" for version in versions}
    rows = re.findall(r"^\|.*`tests/golden/(\w+)`.*\|$", (ROOT / "docs/model-file.md").read_text(), re.MULTILINE)
    assert {row for row in rows if row.startswith(kind)} == folders
