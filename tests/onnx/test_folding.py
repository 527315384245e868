"""Norms are folded into positive scales and 32-bit biases without changing what is computed."""

import numpy as np
import pytest

from prunus.onnx.folding import MAX_BIAS, FoldedNorm, fold_norm

SOURCE = 0.01


def _fold(gain: float, bias: float, weight: float = 0.5, is_live: bool = True) -> FoldedNorm:
    return fold_norm(np.array([weight]), np.array([gain]), np.array([bias]), SOURCE, np.array([is_live]))


@pytest.mark.parametrize("gain", [2.0, -2.0, 1e-3, -1e-12, 1e6, 0.0])
@pytest.mark.parametrize("bias", [0.0, 0.3, -40.0])
def test_codes_times_scale_and_the_bias_stay_what_they_are(gain: float, bias: float) -> None:
    norm = _fold(gain, bias)
    assert norm.scales[0] > 0
    assert abs(norm.factors[0]) <= 1
    assert norm.factors[0] * norm.scales[0] == pytest.approx(0.5 * gain, rel=1e-6)
    assert norm.units[0] == pytest.approx(SOURCE * norm.scales[0])
    assert abs(norm.biases[0] * float(norm.units[0]) - bias) <= 0.501 * norm.units[0]
    assert abs(int(norm.biases[0])) <= MAX_BIAS


def test_codes_only_change_their_sign_while_the_bias_fits() -> None:
    assert [_fold(gain, 1.0).factors[0] for gain in (3.0, -3.0, 1e-4)] == [1, -1, 1]
    assert 0 < _fold(1e-12, 1.0).factors[0] < 1


def test_a_channel_without_weights_has_a_scale_that_suits_its_bias() -> None:
    coarse, fine = _fold(95.0, 2.2), _fold(95.0, 2.2, is_live=False)
    assert abs(coarse.biases[0] * float(coarse.units[0]) - 2.2) > 0.1
    assert fine.biases[0] * float(fine.units[0]) == pytest.approx(2.2, rel=1e-6)
    assert fine.factors[0] == 1  # so that its codes need no change


def test_all_channels_have_weights_unless_told() -> None:
    folded = fold_norm(np.array([0.5]), np.array([-1.0]), np.array([0.0]), SOURCE)
    assert (folded.factors[0], folded.scales[0]) == (-1, 0.5)
