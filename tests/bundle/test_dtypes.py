"""Numbers are rounded as torch rounds them."""

from typing import cast

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from prunus.arrays import DType
from prunus.bundle.dtypes import encode, widened


@given(st.lists(st.floats(-60000, 60000, width=32), min_size=1, max_size=40))
def test_numbers_are_rounded_to_the_nearest(values: list[float]) -> None:
    array = np.array(values, dtype=np.float32)
    theirs = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
    for dtype, kind in theirs.items():
        rounded = widened(encode(array, cast("DType", dtype)))
        assert rounded.tolist() == torch.from_numpy(array).to(kind).float().tolist()
