"""The demonstration keeps its promises."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import prunus
from prunus.cli.app import app
from prunus.samples import demo_names

pytestmark = pytest.mark.slow  # trains


def test_the_demonstration_keeps_its_promises(tmp_path: Path) -> None:
    shown = prunus.demo(tmp_path / "demo", device="cpu")
    assert [stored.results.method for stored in shown.stored] == ["finetune", "union"]
    assert all(sorted(stored.results.domains) == demo_names() for stored in shown.stored)
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert sorted(results["domains"]) == demo_names()
    assert results["method"] == "exact"
    assert results["union"] <= 0.25
    assert results["params_ratio"] <= 0.30
    assert results["model_bytes"] <= 810_000
    assert results["mean_accuracy"] >= max(0.874, results["baselines"]["feature"]["mean_accuracy"] + 0.06)
    assert results["model_bytes"] == (tmp_path / "demo" / "model.prunus").stat().st_size < results["dense_bytes"] / 2
    masked = prunus.evaluate(tmp_path / "demo", device="cpu").model_dump(mode="json")
    for name, entry in masked["domains"].items():
        assert entry["frozen_accuracy"] == results["baselines"]["feature"]["domains"][name]["accuracy"]
        assert results["domains"][name]["frozen_accuracy"] is None
        entry["frozen_accuracy"] = None  # a model file alone does not have the backbone
    assert {key: value for key, value in results.items() if key not in ("baselines", "example")} == masked
    for name in ("accuracy", "usage", "training"):
        assert np.asarray(Image.open(tmp_path / "demo" / "plots" / f"{name}.png").convert("L")).std() > 5


def test_the_same_seed_gives_the_same_results_and_the_fields_are_there(tmp_path: Path) -> None:
    small = ("--set", "training.epochs=1", "--set", "training.batch_size=256", "--device", "cpu")
    outputs = []
    for name in ("a", "b"):
        assert CliRunner().invoke(app, ["demo", "--out", str(tmp_path / name), *small]).exit_code == 0
        outputs.append((tmp_path / name / "results.json").read_bytes())
        assert (tmp_path / name / "model.prunus").exists()
    assert outputs[0] == outputs[1]
    assert (tmp_path / "a" / "model.prunus").read_bytes() == (tmp_path / "b" / "model.prunus").read_bytes()
    results = json.loads(outputs[0])
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
