"""ONNX Runtime computes every operation as the numpy engine does."""

from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime
import pytest

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import ActivationName
from prunus.onnx.model import common_model, domain_model
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import CLASSES, convolution, make_graph, random_bundle, varied_graph


def _run(model: Any, **inputs: Any) -> Floats:  # noqa: ANN401  # onnx is untyped
    onnx.checker.check_model(model, full_check=True)
    logits: Floats = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)[0]
    return logits


def _assert_both_forms_answer_alike(bundle: Bundle) -> None:
    engine, size, common = NumpyEngine(bundle), bundle.manifest.image_size, common_model(onnx, bundle)
    images = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)
    for number, domain in enumerate(bundle.domains):
        expected = engine.logits(images, domain)
        allowed = 1e-5 * max(1.0, float(np.abs(expected).max()))
        assert np.abs(_run(domain_model(onnx, bundle, domain), images=images) - expected).max() <= allowed
        assert np.abs(_run(common, images=images, domain=np.array(number)) - expected).max() <= allowed


@pytest.mark.parametrize("seed", range(6))
def test_a_graph_with_every_operation_is_computed_alike(seed: int) -> None:
    bundle = random_bundle(varied_graph(seed), 12, density=(0.05, 0.4)[seed % 2], seed=seed)
    _assert_both_forms_answer_alike(bundle)


@pytest.mark.parametrize("name", get_args(ActivationName))
def test_an_activation_is_computed_alike(name: str) -> None:
    layer = convolution("c", [0], (4, 3), activation=name, slope=0.3)
    _assert_both_forms_answer_alike(random_bundle(make_graph(layer), 5, domains=("a",), density=1.0))


@pytest.mark.parametrize("kind", ["max", "mean"])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("count_pads", [False, True])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1)])
def test_a_pool_is_computed_alike(kind: str, ceil: bool, count_pads: bool, pads: tuple[int, ...]) -> None:
    pool = {"op": "pool", "inputs": (0,), "kind": kind, "kernel": (3, 2), "stride": (2, 3), "pads": pads}
    graph = make_graph(pool | {"ceil": ceil, "count_pads": count_pads})
    for size in (6, 7, 8):
        _assert_both_forms_answer_alike(random_bundle(graph, size, domains=("a",)))


def test_one_domain_alone_can_be_chosen_too() -> None:
    bundle = random_bundle(varied_graph(1), 12, domains=("only",))
    assert _run(common_model(onnx, bundle), images=np.zeros((1, 3, 12, 12), np.float32), domain=np.array(0)).shape == (
        1,
        len(CLASSES),
    )
