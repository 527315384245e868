from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int8]  # weights from -127 to 127
Stored = npt.NDArray[np.generic]  # float32, float16, or bfloat16 as uint16

def activation_names() -> list[str]: ...
def available_kernels() -> list[str]: ...
def lacking_kernels() -> list[str]: ...

class Window:
    def __init__(
        self, kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
    ) -> None: ...

class Program:
    def __init__(self, shapes: Sequence[tuple[int, int, int]], domains: int, threads: int, kernels: str) -> None: ...
    @property
    def image_bytes(self) -> int: ...
    @property
    def kernels(self) -> str: ...
    def add_convolution(
        self,
        inputs: Sequence[int],
        groups: int,
        window: Window,
        activation: str,
        slope: float,
        kept: Bytes,
        kernels: Stored,
    ) -> int: ...
    def set_convolution(
        self, number: int, domain: int, used: Bytes, scale: Floats | None, bias: Floats | None, ones: Floats | None
    ) -> None: ...
    def add_affine(
        self, source: int, activation: str, slope: float, scales: list[Floats | None], biases: list[Floats | None]
    ) -> None: ...
    def add_layer_norm(
        self, source: int, eps: float, scales: list[Floats | None], biases: list[Floats | None]
    ) -> None: ...
    def add_sum(self, inputs: Sequence[int], activation: str, slope: float) -> None: ...
    def add_product(self, inputs: Sequence[int], activation: str, slope: float) -> None: ...
    def add_join(self, inputs: Sequence[int]) -> None: ...
    def add_pool(self, source: int, window: Window, is_max: bool, count_pads: bool) -> None: ...
    def add_mean(self, source: int) -> None: ...
    def add_affine_map(self, source: int, scales: list[Floats | None], biases: list[Floats | None]) -> None: ...
    def add_join_pixels(self, inputs: Sequence[int], count: int, tokens: list[Floats | None]) -> None: ...
    def add_rearrange(self, source: int, sizes: Sequence[int], strides: Sequence[int], offset: int) -> None: ...
    def add_attention(
        self,
        inputs: Sequence[int],
        heads: int,
        dims: Sequence[int],
        first: Sequence[int],
        step: Sequence[int],
        scale: float,
        apart: float,
        windows: Sequence[Sequence[int]],
        regions: Sequence[Sequence[int]],
        biases: list[Floats | None],
    ) -> None: ...
    def add_integer_attention(
        self,
        inputs: Sequence[int],
        heads: int,
        dims: Sequence[int],
        first: Sequence[int],
        step: Sequence[int],
        apart: float,
        windows: Sequence[Sequence[int]],
        regions: Sequence[Sequence[int]],
        zeros: Sequence[tuple[int, int, int]],
        factors: Sequence[tuple[float, float]],
        biases: list[Floats | None],
    ) -> None: ...
    def set_head(self, domain: int, weight: Stored, bias: Stored) -> None: ...
    def set_value_zeros(self, value: int, zeros: Sequence[int]) -> None: ...
    def add_quantize(self, source: int, inverse_scales: Sequence[float], zeros: Sequence[int]) -> None: ...
    def add_dequantize(self, source: int, scales: Sequence[float], zeros: Sequence[int]) -> None: ...
    def add_integer_convolution(
        self, inputs: Sequence[int], groups: int, window: Window, kept: Bytes, kernels: Codes
    ) -> int: ...
    def set_integer_convolution(
        self,
        number: int,
        domain: int,
        used: Bytes,
        zero: int,
        multipliers: Floats,
        offsets: Floats,
        residual: float,
        low: int,
        high: int,
    ) -> None: ...
    def add_integer_affine(
        self,
        source: int,
        multipliers: Sequence[Floats],
        offsets: Sequence[Floats],
        lows: Sequence[int],
        highs: Sequence[int],
    ) -> None: ...
    def add_table(self, source: int, tables: Sequence[Bytes]) -> None: ...
    def add_integer_sum(
        self,
        inputs: Sequence[int],
        factors: Sequence[tuple[float, float, float]],
        lows: Sequence[int],
        highs: Sequence[int],
    ) -> None: ...
    def add_integer_product(
        self,
        inputs: Sequence[int],
        zeros: Sequence[tuple[int, int]],
        factors: Sequence[tuple[float, float]],
        lows: Sequence[int],
        highs: Sequence[int],
    ) -> None: ...
    def add_integer_join(
        self, inputs: Sequence[int], tables: Sequence[Sequence[Bytes | None]], zeros: Sequence[int]
    ) -> None: ...
    def add_integer_pool(
        self,
        source: int,
        window: Window,
        is_max: bool,
        count_pads: bool,
        zeros: Sequence[int],
        factors: Sequence[tuple[float, float]],
    ) -> None: ...
    def add_integer_mean(self, source: int, zeros: Sequence[int], factors: Sequence[tuple[float, float]]) -> None: ...
    def set_integer_head(self, domain: int, weight: Codes, multipliers: Floats, offsets: Floats) -> None: ...
    def finish(self) -> None: ...
    def run(self, images: Floats, domain: int, logits: Floats) -> bool: ...
    def path(self, number: int, domain: int) -> str: ...
