"""Powers of two as codes: what 8-bit attention uses as a softmax, the same on every processor.

Every operation is in float32 and rounded once. 2^f for f from -0.5 to 0.5 is a sum of five terms of its series, which
is off by at most 4.2e-5: a hundredth of a code.
"""

import math

import numpy as np

from prunus.arrays import Bytes, Floats

LOWEST = np.float32(-16)  # the code of smaller powers is 0
TERMS = tuple(np.float32(math.log(2) ** power / math.factorial(power)) for power in (4, 3, 2, 1, 0))


def power_codes(exponents: Floats) -> Bytes:
    """Return 255 * 2^exponent as codes, for exponents of at most 0."""
    limited = np.maximum(exponents, LOWEST)
    whole = np.rint(limited)
    rest = limited - whole
    powers = np.full_like(rest, TERMS[0])
    for term in TERMS[1:]:
        powers = powers * rest + term
    codes: Bytes = np.rint(powers * np.ldexp(np.float32(255), whole.astype(np.int32))).astype(np.uint8)
    return codes
