"""The demonstration keeps its promises."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import prunus
from prunus.cli.app import app
from prunus.measure.by_class.confusion import MOST_MISTAKES
from prunus.samples import demo_names
from tests.makers.measured import assert_same_results

ROOT = Path(__file__).parents[2]
# a quarter of the pixels takes a quarter of the time
SHORT = ('backbone={name="wrn14_2",size=16,resize=18}', "training.epochs=1")


def _assert_promised(results: dict[str, Any]) -> None:
    """Check what the demonstration promises at every length of its training run."""
    assert sorted(results["domains"]) == demo_names()
    assert results["method"] == "exact"
    assert results["union"] <= 0.25
    assert results["params_ratio"] <= 0.30
    assert results["model_bytes"] <= 810_000
    assert results["model_bytes"] < results["dense_bytes"] / 2


def _assert_accurate(results: dict[str, Any]) -> None:
    """Check the accuracy that the whole training run promises."""
    assert results["mean_accuracy"] >= max(0.874, results["baselines"]["feature"]["mean_accuracy"] + 0.06)


def _demonstrate(folder: Path, *overrides: str) -> bytes:
    """Run the demonstration, check every file that it writes, and return its results.json."""
    shown = prunus.demo(folder, overrides, device="cpu")
    assert [stored.results.method for stored in shown.stored] == ["finetune", "union"]
    assert all(sorted(stored.results.domains) == demo_names() for stored in shown.stored)
    written = (folder / "results.json").read_bytes()  # evaluate replaces it
    results = json.loads(written)
    _assert_promised(results)
    assert results["model_bytes"] == (folder / "model.prunus").stat().st_size
    masked = prunus.evaluate(folder, device="cpu").model_dump(mode="json")
    for name, entry in masked["domains"].items():
        assert entry["frozen_accuracy"] == results["baselines"]["feature"]["domains"][name]["accuracy"]
        assert results["domains"][name]["frozen_accuracy"] is None
        entry["frozen_accuracy"] = None  # a model file alone does not have the backbone
    own = {key: value for key, value in results.items() if key not in ("baselines", "example")}
    assert_same_results(own, masked)
    for name in ("accuracy", "usage", "training"):
        assert np.asarray(Image.open(folder / "plots" / f"{name}.png").convert("L")).std() > 5
    return written


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """The results and the model file of a demonstration of one epoch."""
    folder = tmp_path_factory.mktemp("short")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        results = _demonstrate(folder / "demo", *SHORT)
    return results, (folder / "demo" / "model.prunus").read_bytes()


@pytest.mark.slow
def test_a_short_demonstration_keeps_its_promises(short: tuple[bytes, bytes]) -> None:
    results = json.loads(short[0])
    assert results["mean_accuracy"] > 0.4  # a guess would be right in 7 % of the cases


@pytest.mark.slow
@pytest.mark.skipif("PRUNUS_FULL_DEMO" not in os.environ, reason="takes minutes: part of make sweep")
def test_the_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    _assert_accurate(json.loads(_demonstrate(tmp_path / "demo")))


def test_the_stored_results_of_the_demonstration_keep_its_promises() -> None:
    results = json.loads((ROOT / "docs" / "results" / "demo" / "results.json").read_text())
    _assert_promised(results)
    _assert_accurate(results)
    for measured in (results, results["baselines"]["feature"]):
        for domain in measured["domains"].values():
            correct = sum(found["correct"] for found in domain["by_class"]["classes"])
            wrong = sum(found["images"] for found in domain["by_class"]["confusions"])
            assert correct + wrong == domain["images"]
            assert correct / domain["images"] == pytest.approx(domain["accuracy"])
            assert len(domain["by_class"]["mistakes"]) == min(MOST_MISTAKES, wrong)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_results_and_the_fields_are_there(
    short: tuple[bytes, bytes], tmp_path: Path
) -> None:
    settings = [argument for override in SHORT for argument in ("--set", override)]
    command = ["demo", "--out", str(tmp_path / "again"), *settings, "--device", "cpu"]
    assert CliRunner().invoke(app, command).exit_code == 0
    again = tuple((tmp_path / "again" / name).read_bytes() for name in ("results.json", "model.prunus"))
    assert again == short
    results = json.loads(short[0])
    assert {
        "budget",
        "sharing",
        "seed",
        "mean_accuracy",
        "union",
        "sparsity",
        "params_ratio",
        "macs_ratio",
    } < results.keys()
    assert {"model_bytes", "dense_bytes", "domains", "baselines"} < results.keys()
    assert all({"accuracy", "usage", "macs_ratio"} < entry.keys() for entry in results["domains"].values())
    assert "mean_accuracy" in results["baselines"]["feature"]
    assert results["baselines"]["feature"]["params_ratio"] == 1.0
