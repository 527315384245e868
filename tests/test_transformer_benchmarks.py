"""The benchmarks of transformers name every rival that they time or cannot time, and the command that they ran."""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import transformer_accuracy, transformer_speed
from prunus.onnx.model import domain_model
from tests.makers.graph_bundles import random_bundle
from tests.makers.token_networks import token_graph

IMAGES = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def _models() -> dict[str, bytes]:
    model = domain_model(onnx, random_bundle(token_graph(), 8), "a").SerializeToString()
    return {"float32, exported by Prunus": model, "float32, exported by torch": model}


def test_engines_that_are_not_installed_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("openvino", "nncf"):
        monkeypatch.setitem(sys.modules, package, None)
    runs, missing = transformer_speed.loaded(_models(), IMAGES)
    assert list(runs) == ["float32, exported by Prunus", "float32, exported by torch"]
    assert missing.keys() == {
        f"{kind}, OpenVINO,{form} exported by {who}"
        for kind, form in (("float32", ""), ("int8", " nncf,"))
        for who in ("Prunus", "torch")
    }


def test_openvino_runs_what_it_can_load_to_the_same_logits() -> None:
    pytest.importorskip("openvino")  # not among the packages of this project
    runs, missing = transformer_speed.loaded(_models(), IMAGES)
    expected = runs["float32, exported by Prunus"](IMAGES[:1])
    found = runs["float32, OpenVINO, exported by Prunus"](IMAGES[:1])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    assert not any("openvino" in reason for reason in missing.values())


def test_the_fastest_rival_of_a_type_counts_whatever_its_engine() -> None:
    times = {
        "Prunus float32": 2.0,
        "Prunus int8": 1.0,
        "float32, exported by torch": 9.0,
        "float32, OpenVINO, exported by torch": 6.0,
        "int8, static, exported by torch": 5.0,
        "int8, OpenVINO, nncf, exported by torch": 4.0,
    }
    assert transformer_speed.ratios(times) == {"float32": 3.0, "int8": 4.0}


def test_the_command_of_the_accuracies_names_all_that_decides_them() -> None:
    given = transformer_accuracy.arguments_of(["--epochs", "8", "--device", "cpu", "--runs", "elsewhere"])
    command = transformer_accuracy.command_of(given)
    expected = "--backbone timm/deit_tiny_patch16_224 --size 96 --epochs 8 --batch-size 32 --device cpu"
    assert command == f"python -m benchmarks.transformer_accuracy {expected}"
    again = transformer_accuracy.arguments_of(command.split()[3:])
    assert vars(again) == vars(given) | {"runs": again.runs}


def test_nothing_is_trained_where_only_measuring_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(transformer_accuracy, "train_or_continue", train)
    given: argparse.Namespace = transformer_accuracy.arguments_of(["--measure-only", "--runs", str(tmp_path)])
    with pytest.raises(SystemExit, match="holds no finished run with these arguments"):
        transformer_accuracy.train("exact", given)
