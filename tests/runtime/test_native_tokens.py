"""Every engine computes the operations on tokens as torch does in double precision, with any number of threads."""

import numpy as np
import onnx
import onnxruntime
import pytest

from prunus.arrays import Floats
from prunus.onnx.model import common_model, domain_model
from prunus.runtime import _native
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from tests.makers.graph_bundles import exact_logits, random_bundle
from tests.makers.token_networks import token_graph

IMAGES: Floats = np.random.default_rng(1).standard_normal((3, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
def test_all_engines_agree_with_double_precision(seed: int) -> None:
    bundle = random_bundle(token_graph(), 8, seed=seed)
    engines: list[NumpyEngine | NativeEngine] = [NumpyEngine(bundle)]
    engines += [NativeEngine(bundle, kernels=name) for name in _native.available_kernels()]
    common = onnxruntime.InferenceSession(common_model(onnx, bundle).SerializeToString())
    for number, domain in enumerate(bundle.domains):
        expected = exact_logits(bundle, IMAGES, domain)
        session = onnxruntime.InferenceSession(domain_model(onnx, bundle, domain).SerializeToString())
        answers = [engine.logits(IMAGES, domain) for engine in engines]
        answers.append(session.run(None, {"images": IMAGES})[0])
        answers.append(common.run(None, {"images": IMAGES, "domain": np.array(number)})[0][:, : expected.shape[1]])
        for answer in answers:
            np.testing.assert_allclose(answer, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_threads_change_no_bit() -> None:
    bundle = random_bundle(token_graph(), 8)
    alone, together = (NativeEngine(bundle, threads=threads).logits(IMAGES, "a") for threads in (1, 3))
    np.testing.assert_array_equal(alone, together)
