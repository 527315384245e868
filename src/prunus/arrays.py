"""The types of arrays, named once."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
DType = Literal["float32", "float16", "bfloat16", "int8"]  # of the numbers in a model file
Values = npt.NDArray[np.floating[Any]]  # float32 or float64
