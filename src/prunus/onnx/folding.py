"""The numbers of an 8-bit convolution in an ONNX model: a domain's norm is folded into the scale of its weights.

ONNX wants positive scales and a bias that counts units of the sums of products, as 32-bit integers. Where a norm is
negative, codes change their sign. Where it is so small that the bias would not fit, codes become smaller instead.

Legend: O = output channels.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prunus.arrays import Bools, Doubles, Floats

MAX_BIAS = 2.0**30  # leaves room for the sum of products in 32 bits
MIN_SCALE = 2.0**-80  # times that of the input, which may be 2^-40, it is still a normal number


@dataclass(frozen=True)
class FoldedNorm:
    """What weight codes are multiplied by, the scales of the products, and the bias in units of the sums."""

    factors: Floats
    scales: Floats
    units: Floats  # of the sums: scale of the input times scale of the weights
    biases: npt.NDArray[np.int32]


def fold_norm(
    weights_O: Doubles, gain_O: Doubles, bias_O: Doubles, source: float, is_live_O: Bools | None = None
) -> FoldedNorm:
    """Fold a norm.

    Args:
        weights_O: the scales of the weight codes.
        source: the scale of the input.
        is_live_O: the channels that have weights, all by default; of others, the scale only has to suit the bias.
    """
    real_O = weights_O * gain_O if is_live_O is None else np.where(is_live_O, weights_O * gain_O, 0.0)
    least_O = np.maximum(np.abs(bias_O) / (MAX_BIAS * source), MIN_SCALE)
    scales_O = np.maximum(np.abs(real_O), least_O).astype(np.float32)
    factors_O = np.where(np.abs(real_O) < least_O, real_O / scales_O, np.sign(real_O)).astype(np.float32)
    if is_live_O is not None:
        factors_O[~is_live_O] = 1
    units_O = (scales_O * np.float64(source)).astype(np.float32)
    biases_O = np.clip(np.rint(bias_O / units_O), -MAX_BIAS, MAX_BIAS).astype(np.int32)
    return FoldedNorm(factors_O, scales_O, units_O, biases_O)
