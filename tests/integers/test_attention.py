"""Attention over codes has exactly the codes that the documentation defines, and stays near a softmax of floats."""

from typing import Any

import numpy as np
import pytest

from prunus.graph.compute import compute as compute_floats
from prunus.integers import attention as coded_attention
from prunus.integers.compute import compute
from prunus.integers.program import lower
from tests.integers.test_compute import assert_plain
from tests.makers.coded_bundles import random_coded_bundle
from tests.makers.graph_bundles import convolution, make_graph
from tests.makers.token_networks import ONE, attention

WINDOWS = {"window": (2, 3), "every": (1, 1), "shift": (1, 2), "apart": -20.0}


@pytest.mark.parametrize(
    "fields",
    [{}, {"pairs": (36, 36)}, WINDOWS, WINDOWS | {"pairs": (6, 6), "every": (3, 1)}],
    ids=["all pixels", "bias", "windows", "spread windows with a bias"],
)
def test_attention_has_the_codes_of_the_plain_reference(fields: dict[str, Any]) -> None:
    graph = make_graph(convolution("qkv", [0], (24, 3), **ONE), attention((1, 1, 1), **fields))
    for seed in range(4):
        bundle = random_coded_bundle(graph, 6, seed=seed)
        assert bundle.manifest.integers == (0, 1)
        image = np.random.default_rng(seed).standard_normal((3, 6, 6)).astype(np.float32)
        assert_plain(bundle, image)


def test_attention_in_integers_stays_near_the_softmax_of_floats() -> None:
    graph = make_graph(convolution("qkv", [0], (24, 3), **ONE), attention((1, 1, 1)))
    for seed in range(4):
        bundle = random_coded_bundle(graph, 9, seed=seed)
        domain = bundle.domains[0]
        codes = np.random.default_rng(seed).integers(0, 256, (1, 24, 9, 9)).astype(np.uint8)
        found = compute(lower(bundle).steps[-1], [codes] * 3, {}, 0).astype(np.float64)
        scales, zeros = (bundle.arrays[f"coding/{domain}/{role}"].astype(np.float64) for role in ("scale", "zero"))
        numbers = scales[1] * (codes.astype(np.float64) - zeros[1])
        exact = compute_floats(bundle.manifest.graph[1], [numbers] * 3, {}, (9, 9))
        wanted = np.clip(exact / scales[2] + zeros[2], 0, 255)
        spread = 255 * scales[1] / scales[2]  # of the values, in codes of the result
        # the weights of 81 pixels are rounded by half a code of 255 each
        assert np.abs(found - wanted).max() <= 0.5 + spread * 81 * 0.52 / 255
        assert np.abs(found - wanted).mean() <= 0.3 + spread * 0.01


def test_attention_in_parts_is_that_of_all_scores_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = make_graph(convolution("qkv", [0], (24, 3), **ONE), attention((1, 1, 1), **WINDOWS))
    bundle = random_coded_bundle(graph, 6)
    codes = np.random.default_rng(0).integers(0, 256, (2, 24, 6, 6)).astype(np.uint8)
    step = lower(bundle).steps[-1]
    whole = compute(step, [codes] * 3, {}, 0)
    for most in (1, 20, 100):
        monkeypatch.setattr(coded_attention, "MOST_SCORES", most)
        assert np.array_equal(compute(step, [codes] * 3, {}, 0), whole)
