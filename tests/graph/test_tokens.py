"""The numpy operations on tokens equal plain loops over heads, windows and numbers."""

from itertools import product

import numpy as np
import pytest

from prunus.arrays import Doubles
from prunus.graph.operations import AffineMap, Attention, JoinPixels, Rearrange
from prunus.graph.tokens import affine_map, attention, join_pixels, rearrange, softmax

RNG = np.random.default_rng(3)
X: Doubles = RNG.standard_normal((2, 22, 4, 6))


def test_every_number_has_its_own_scale_and_bias() -> None:
    operation = AffineMap(op="affine_map", inputs=(0,), sides=(4, 6))
    scale, bias = RNG.standard_normal((2, 22, 4, 6))
    result = affine_map(operation, [X], {"scale": scale, "bias": bias}, (4, 6))
    assert result[1, 7, 2, 3] == X[1, 7, 2, 3] * scale[7, 2, 3] + bias[7, 2, 3]
    np.testing.assert_array_equal(affine_map(operation, [X], {}, (4, 6)), X)


def test_pixels_are_joined_after_the_tokens() -> None:
    operation = JoinPixels(op="join_pixels", inputs=(0, 1), count=2)
    other, tokens = RNG.standard_normal((2, 22, 1, 3)), RNG.standard_normal((22, 2))
    result = join_pixels(operation, [X, other], {"tokens": tokens}, (1, 29))
    assert result.shape == (2, 22, 1, 29)
    for image in range(2):
        np.testing.assert_array_equal(result[image, :, 0, :2], tokens)
    np.testing.assert_array_equal(result[:, :, 0, 2:26], X.reshape(2, 22, 24))
    np.testing.assert_array_equal(result[:, :, :, 26:], other)
    assert not join_pixels(operation, [X, other], {}, (1, 29))[:, :, :, :2].any()


def test_numbers_are_found_at_their_positions() -> None:
    fields = {"op": "rearrange", "inputs": (0,), "target": (3, 2, 2), "sizes": (3, 4), "strides": (24, 5), "offset": 7}
    result = rearrange(Rearrange.model_validate(fields), [X], {}, (2, 2))
    flat = X.reshape(2, -1)
    expected = [[[flat[image, 7 + 24 * i + 5 * j] for j in range(4)] for i in range(3)] for image in range(2)]
    np.testing.assert_array_equal(result.reshape(2, 3, 4), expected)


def test_a_softmax_sums_to_one_and_survives_large_numbers() -> None:
    result = softmax(np.array([[0.0, np.log(3.0)], [1e4, 1e4]]))
    np.testing.assert_allclose(result, [[0.25, 0.75], [0.5, 0.5]])


@pytest.mark.parametrize(
    "window", [{}, {"window": (2, 3)}, {"window": (2, 3), "shift": (1, 1), "apart": -100.0, "every": (2, 1)}]
)
def test_attention_equals_a_loop_over_pairs_of_pixels(window: dict[str, object]) -> None:
    fields: dict[str, object] = {"op": "attention", "inputs": (0, 0, 0), "heads": 2, "dims": (3, 5), "scale": 0.7}
    fields |= {"first": (0, 6, 12), "step": (3, 3, 5), "pairs": (6, 6) if window else (24, 24)}
    operation = Attention.model_validate(fields | window)
    bias = RNG.standard_normal((2, *(operation.pairs or ())))
    result = attention(operation, [X, X, X], {"bias": bias}, (4, 6))
    flat = X.reshape(2, 22, 24)
    windows = operation.windows((4, 6)) if window else np.arange(24)[None]
    regions = operation.regions((4, 6)) if window else np.zeros((1, 24))
    expected = np.zeros((2, 10, 24))
    cases = product(range(2), range(2), zip(windows, regions, strict=True))
    for image, head, (pixels, borders) in cases:
        q, k = (flat[image, start + 3 * head : start + 3 * head + 3] for start in (0, 6))
        v = flat[image, 12 + 5 * head : 17 + 5 * head]
        for i, query in enumerate(pixels):
            scores = [0.7 * q[:, query] @ k[:, key] + bias[head, i, j] for j, key in enumerate(pixels)]
            scores = [s + operation.apart * (borders[i] != border) for s, border in zip(scores, borders, strict=True)]
            weights = np.exp(np.array(scores) - max(scores))
            expected[image, 5 * head : 5 * head + 5, query] = v[:, pixels] @ (weights / weights.sum())
    np.testing.assert_allclose(result.reshape(2, 10, 24), expected, atol=1e-12)
