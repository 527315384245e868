"""A model file runs in a base install without torch, and without kernels if there was no compiler."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

import prunus
from prunus.arrays import Floats
from prunus.bundle.file import read_bundle, write_bundle
from prunus.runtime import Predictor
from prunus.verbs.methods import methods as describe_methods
from tests.makers.graph_bundles import random_bundle, varied_graph

ROOT = Path(__file__).parents[2]
TRAINED = ROOT / "tests" / "golden" / "model_format_3" / "trained.prunus"
MOST_BYTES = 1_500_000  # of the wheel
# CPU time for importing the runtime, in imports of the packages it needs: seconds depend on the machine and its load
MOST_IMPORTS = 2.5
OFFLINE = re.compile(  # a whole line of what uv prints if it cannot reach the registry
    r"^\W*(?:(?:error|cause|caused by|hint): )?"
    r"(?:error sending request for url \(\S+\)"
    r"|packages were unavailable because the network was disabled\..*"
    r"|network connectivity is disabled, but the requested data wasn't found in the cache.*)$",
    re.IGNORECASE | re.MULTILINE,
)
CLEAN = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PRUNUS_ENGINE")}

PREDICT = """
import importlib.util, sys
import numpy as np
from prunus.runtime import Predictor

model, images, answers = sys.argv[1:]
for again in range(2):
    predictor = Predictor(model)
    np.save(answers, np.stack([predictor.logits(np.load(images), domain) for domain in predictor.domains]))
print(sorted({"torch", "torchvision", "timm"} & set(sys.modules)), importlib.util.find_spec("torch") is not None)
"""
IMPORT = "import time; began = time.process_time(); import {}; print(time.process_time() - began)"


class Model(NamedTuple):
    """A model file, prepared images, a picture, and the expected logits."""

    path: Path
    images: Path
    picture: Path
    logits: Floats  # (domains, images, classes)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    model = Model(folder / "m.prunus", folder / "images.npy", folder / "p.png", np.zeros(0, np.float32))
    write_bundle(model.path, random_bundle(varied_graph(1), 12))
    rng = np.random.default_rng(0)
    np.save(model.images, rng.standard_normal((3, 3, 12, 12)).astype(np.float32))
    Image.fromarray(rng.integers(0, 256, (20, 16, 3), dtype=np.uint8)).save(model.picture)
    predictor = Predictor(model.path)
    answers = [predictor.logits(np.load(model.images), domain) for domain in predictor.domains]
    return model._replace(logits=np.stack(answers))


def _run(command: Sequence[str | Path], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, env=CLEAN | more, cwd=ROOT.anchor)


def _try_uv(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run uv; skip the test if the registry cannot be reached."""
    uv = shutil.which("uv") or next(map(str, ROOT.glob(".uv/bin/uv")), None)
    if uv is None:
        pytest.skip("uv is not installed")
    done = _run([uv, *arguments], **more)
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip(f"the package registry cannot be reached: {done.stderr.splitlines()[-1]}")
    return done


def _uv(*arguments: str | Path, **more: str) -> None:
    done = _try_uv(*arguments, **more)
    assert done.returncode == 0, done.stdout + done.stderr


UNREACHED = (
    "error: Request failed after 3 retries in 7.9s\n  cause: Failed to fetch: https://pypi.org/simple/numpy/\n"
    "  cause: error sending request for url (https://pypi.org/simple/numpy/)\n  cause: client error (Connect)\n",
    "error: No solution found\n\nhint: Packages were unavailable because the network was disabled. When it is ...\n",
)
FAILED = (
    "error: /home/network/offline/native/module.cpp:3: expected ';'\n",
    "error: Failed to build `prunus @ file:///srv/network`\n  cause: the build backend failed: dns error\n",
    "error: Request failed\n  cause: Failed to fetch: https://pypi.org/simple/numpi/\n  cause: 404 Not Found\n",
)


def test_only_a_registry_that_cannot_be_reached_is_a_reason_to_skip() -> None:
    assert all(OFFLINE.search(text) for text in UNREACHED)
    assert not any(OFFLINE.search(text) for text in FAILED)


def _try_build(folder: Path, build: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build a wheel, with the build tools of this environment if it has them."""
    tools = all(map(importlib.util.find_spec, ("scikit_build_core", "nanobind")))
    isolation = ["--no-build-isolation"] if tools else []
    target: list[str | Path] = ["--python", sys.executable, "--out-dir", folder, "-C", f"build-dir={build}"]
    return _try_uv("build", "--wheel", *isolation, *target, ROOT, **environment)


def _build(folder: Path, build: Path, **environment: str) -> Path:
    done = _try_build(folder, build, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def _install(wheel: Path, folder: Path) -> Path:
    """Install a wheel and its dependencies into a new environment; return the folder of its programs."""
    _uv("venv", "--quiet", "--python", sys.executable, folder)
    _uv("pip", "install", "--quiet", "--python", folder / "bin/python", wheel)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _build(tmp_path_factory.mktemp("wheel"), ROOT / "build/{wheel_tag}")


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _install(wheel, tmp_path_factory.mktemp("base") / "env")


@pytest.fixture(scope="module")
def compilerless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pure")
    wheel = _build(folder, folder / "build", CXX=str(folder / "no-such-compiler"))
    assert wheel.name.endswith("py3-none-any.whl")
    return _install(wheel, folder / "env")


def _answers(python: Path | str, model: Model, **more: str) -> tuple[Floats, subprocess.CompletedProcess[str]]:
    answers = model.path.with_name("answers.npy")
    answers.unlink(missing_ok=True)
    done = _run([python, "-c", PREDICT, model.path, model.images, answers], **more)
    assert done.returncode == 0, done.stderr
    logits: Floats = np.load(answers)
    return logits, done


def _assert_same(logits: Floats, expected: Floats, tolerance: float) -> None:
    np.testing.assert_allclose(logits, expected, rtol=0, atol=tolerance * float(np.abs(expected).max()))


@pytest.mark.slow
def test_the_base_install_gives_the_same_logits_without_torch(base: Path, model: Model) -> None:
    logits, done = _answers(base / "python", model)
    _assert_same(logits, model.logits, 1e-6)
    assert done.stdout.strip() == "[] False"
    assert done.stderr == ""


def test_torch_is_not_imported_where_it_is_installed(model: Model) -> None:
    _, done = _answers(sys.executable, model)
    assert done.stdout.strip() == "[] True"


@pytest.mark.slow
def test_predict_and_inspect_work_in_the_base_install(base: Path, model: Model) -> None:
    done = _run([base / "prunus", "predict", model.path, model.picture, "--domain", "b", "--json"])
    assert done.returncode == 0, done.stderr
    (answer,) = json.loads(done.stdout)
    (expected,) = Predictor(model.path).predict(model.picture, "b")
    assert [prediction["label"] for prediction in answer["predictions"]] == [
        prediction.label for prediction in expected
    ]
    _assert_same(
        np.array([prediction["probability"] for prediction in answer["predictions"]]),
        np.array([prediction.probability for prediction in expected]),
        1e-6,
    )
    shown = _run([base / "prunus", "inspect", model.path])
    assert shown.returncode == 0, shown.stderr
    assert all(word in shown.stdout for word in ("stem", "depthwise", "2 domains"))


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of the two domains that the trained model file knows."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for name, entry in read_bundle(TRAINED).manifest.domains.items():
        for split, label in itertools.product(("train", "test"), entry.classes):
            path = folder / name / split / label / "0.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(rng.integers(0, 256, (36, 36, 3), dtype=np.uint8)).save(path)
    return folder


@pytest.mark.slow
def test_a_model_file_is_measured_in_the_base_install(base: Path, images: Path) -> None:
    done = _run([base / "prunus", "evaluate", TRAINED, "--data", images, "--no-cache", "--json"])
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    expected = prunus.evaluate(TRAINED, data=images, device="cpu", use_cache=False).model_dump(mode="json")
    for name, domain in expected["domains"].items():  # another build may round the probabilities differently
        for key in ("accuracy", "images", "usage", "macs"):
            assert measured["domains"][name][key] == domain[key]
    alone = ("domains",)
    assert {k: v for k, v in measured.items() if k not in alone} == {
        k: v for k, v in expected.items() if k not in alone
    }


@pytest.mark.slow
def test_methods_and_bundled_backbones_are_listed_in_the_base_install(base: Path) -> None:
    for command, expected in (("methods", describe_methods()), ("zoo", prunus.zoo())):
        done = _run([base / "prunus", command, "--json"])
        assert done.returncode == 0, done.stderr
        assert [row["name"] for row in json.loads(done.stdout)] == [row.name for row in expected]
    assert "pip install 'prunus[train]'" in _run([base / "prunus", "zoo"]).stdout
    other = _run([base / "prunus", "zoo", "timm/resnet50"])
    assert other.returncode != 0
    assert "pip install 'prunus[train]'" in " ".join(other.stderr.split())


@pytest.mark.slow
def test_training_in_the_base_install_says_what_to_install(base: Path) -> None:
    recipe = ROOT / "samples/prunus_samples/recipes/demo.toml"
    done = _run([base / "prunus", "train", recipe, "--out", base.parent / "run"])
    assert done.returncode != 0
    assert "pip install 'prunus[train]'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_wheel_is_small(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        sizes = {entry.filename: entry.compress_size for entry in file.infolist()}
    assert any("runtime/_native" in name for name in sizes)
    assert wheel.stat().st_size < MOST_BYTES


@pytest.mark.slow
def test_the_wheel_serves_all_later_versions_of_python_from_3_12_on(wheel: Path) -> None:
    version = f"cp3{sys.version_info.minor}"
    assert ("-cp312-abi3-" if sys.version_info >= (3, 12) else f"-{version}-{version}-") in wheel.name


@pytest.mark.slow
def test_a_required_native_engine_that_cannot_be_built_is_an_error(tmp_path: Path) -> None:
    done = _try_build(tmp_path, tmp_path / "build", CXX=str(tmp_path / "missing"), PRUNUS_REQUIRE_NATIVE="1")
    assert done.returncode != 0
    assert "the native engine could not be built" in done.stdout + done.stderr
    assert list(tmp_path.glob("*.whl")) == []


@pytest.mark.slow
def test_importing_the_runtime_is_quick(base: Path) -> None:
    def fastest(modules: str) -> float:
        program = IMPORT.format(modules)
        return min(
            float(_run([base / "python", "-c", program]).stdout) for _ in range(6)
        )  # the first one may write the bytecode cache

    assert fastest("prunus.runtime") < MOST_IMPORTS * fastest("numpy, pydantic, PIL.Image")


@pytest.mark.slow
def test_without_a_compiler_numpy_gives_the_same_answers_and_says_so_once(compilerless: Path, model: Model) -> None:
    logits, done = _answers(compilerless / "python", model)
    _assert_same(logits, model.logits, 1e-5)
    assert done.stderr.count("RuntimeWarning: the native engine is missing") == 1
    assert done.stdout.strip() == "[] False"
    _, chosen = _answers(compilerless / "python", model, PRUNUS_ENGINE="numpy")
    assert chosen.stderr == ""
    assert _run([compilerless / "python", "-c", "import prunus.runtime._native"]).returncode != 0


@pytest.mark.slow
def test_without_a_compiler_an_instruction_set_cannot_be_chosen(compilerless: Path, model: Model) -> None:
    arguments: list[str | Path] = ["-c", PREDICT, model.path, model.images, model.path.with_name("none.npy")]
    done = _run([compilerless / "python", *arguments], PRUNUS_ENGINE="portable")
    assert done.returncode != 0
    assert "unknown engine 'portable'; known: auto, numpy" in done.stderr
