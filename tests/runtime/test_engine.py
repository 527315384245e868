"""The fastest engine is chosen unless the environment names another."""

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import PrunusError, UnknownNameError
from prunus.runtime import _native
from prunus.runtime.engine import make_engine
from prunus.runtime.native_engine import INSTRUCTION_SETS, NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import random_bundle, varied_graph

DOCS = Path(__file__).parents[2] / "docs/runtime.md"
BEST = _native.available_kernels()[0]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return random_bundle(varied_graph(3), 12)


@pytest.fixture(scope="module")
def images() -> Floats:
    return np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)


@pytest.fixture
def no_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the import of the native module fail, as in a package that was built without a compiler."""
    monkeypatch.delenv("PRUNUS_ENGINE", raising=False)
    monkeypatch.delitem(sys.modules, "prunus.runtime.native_engine")
    monkeypatch.delattr("prunus.runtime._native")
    monkeypatch.setitem(sys.modules, "prunus.runtime._native", None)


@pytest.mark.parametrize("name", [*_native.available_kernels(), "numpy", "auto", ""])
def test_the_environment_chooses_the_engine(
    bundle: Bundle, images: Floats, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = make_engine(bundle, 1).logits(images, "b")
    monkeypatch.setenv("PRUNUS_ENGINE", name)
    engine = make_engine(bundle, 1)
    assert isinstance(engine, NumpyEngine if name == "numpy" else NativeEngine)
    assert engine.name == (name if name not in ("auto", "") else BEST)
    np.testing.assert_allclose(engine.logits(images, "b"), expected, rtol=1e-4, atol=1e-4)


def test_an_unknown_engine_is_refused_and_the_known_ones_are_listed(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNUS_ENGINE", "avx3")
    with pytest.raises(UnknownNameError, match=r"unknown engine 'avx3'; .*known: .*auto.*portable.*numpy"):
        make_engine(bundle, 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("avx512", "this processor lacks the instructions of engine 'avx512'; it has: auto, avx2, portable, numpy"),
        ("neon", "this build lacks engine 'neon', which is for other processors; it has: auto, avx2, portable, numpy"),
    ],
)
def test_an_instruction_set_that_does_not_run_here_is_refused_with_the_reason(
    bundle: Bundle, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_native, "available_kernels", lambda: ["avx2", "portable"])
    monkeypatch.setattr(_native, "lacking_kernels", lambda: ["avx512vnni", "avx512"])
    monkeypatch.setenv("PRUNUS_ENGINE", name)
    with pytest.raises(PrunusError, match=f"^{message}$"):
        make_engine(bundle, 1)


def test_the_instruction_sets_are_those_of_the_documentation_and_of_this_build() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ", DOCS.read_text(), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert tuple(name for name in listed if name in INSTRUCTION_SETS) == INSTRUCTION_SETS
    assert {*_native.available_kernels(), *_native.lacking_kernels()} <= {*INSTRUCTION_SETS}


@pytest.mark.usefixtures("no_native")
def test_without_the_native_module_a_warning_says_that_numpy_computes(bundle: Bundle, images: Floats) -> None:
    message = r"the native engine is missing \(.*\); falling back to numpy \(same results, slower\)\. .*C\+\+ compiler"
    with pytest.warns(RuntimeWarning, match=message):
        engine = make_engine(bundle, 1)
    assert engine.name == "numpy"
    assert engine.logits(images, "a").shape == (2, 3)


@pytest.mark.usefixtures("no_native")
@pytest.mark.parametrize("name", ["portable", "avx2"])
def test_without_the_native_module_an_instruction_set_is_unknown(
    bundle: Bundle, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNUS_ENGINE", name)
    with pytest.raises(UnknownNameError, match=f"unknown engine '{name}'; known: auto, numpy"):
        make_engine(bundle, 1)


@pytest.mark.parametrize("threads", [0, -1, 2**40, 1.5, True, None, "2"])
def test_an_impossible_number_of_threads_is_refused(bundle: Bundle, threads: Any) -> None:  # noqa: ANN401
    with pytest.raises(PrunusError, match=f"threads must be a whole number from 1 to 1024, got {threads!r}"):
        make_engine(bundle, threads)
