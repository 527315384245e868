"""Quantize an ONNX model to 8 bits with ONNX Runtime's own tools: the rival that a user gets in one line.

Activations are unsigned and weights signed, with one scale per output channel (U8S8). Batch norms are folded into
convolutions first, as ONNX Runtime does when it loads a model.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prunus.arrays import Floats
from prunus.errors import BundleError
from prunus.timing.machine import processor_flags


def quantize(model: bytes, images: Floats) -> bytes:
    """Return the model in 8 bits, with ranges measured on images, one at a time."""
    import onnxruntime.quantization  # noqa: PLC0415, F401  # optional; what is missing is said as such

    try:
        return _quantize(model, images)
    except Exception as reason:  # ONNX Runtime raises dozens of types
        raise BundleError(f"ONNX Runtime cannot quantize the network: {reason}; try another version") from reason


def _quantize(model: bytes, images: Floats) -> bytes:
    from onnxruntime import quantization  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder, _quiet():
        folded, result = Path(folder) / "folded.onnx", Path(folder) / "eight_bits.onnx"
        _fold(model, folded)
        quantization.quantize_static(
            folded,
            result,
            _Reader({"images": image[None]} for image in images),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            reduce_range=needs_seven_bits(processor_flags()),
        )
        return result.read_bytes()


def needs_seven_bits(flags: frozenset[str]) -> bool:
    """Return whether sums of bytes may saturate: on x86 without VNNI, its guide advises weights of 7 bits."""
    return "avx2" in flags and not flags & {"avx512_vnni", "avx_vnni"}


class _Reader:
    """Inputs of a model, as ONNX Runtime's tools read them: they accept any object with these methods."""

    def __init__(self, inputs: Iterable[dict[str, Floats]]) -> None:
        self._inputs = iter(inputs)

    def get_next(self) -> dict[str, Floats] | None:
        """Return the next input; None after the last."""
        return next(self._inputs, None)

    def __iter__(self) -> Iterator[dict[str, Floats]]:
        return self._inputs


def _fold(model: bytes, path: Path) -> None:
    """Write a model in which all that depends on no input is computed."""
    import onnxruntime  # noqa: PLC0415  # optional

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3  # it warns that the written model fits this machine, where it is used
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the tools' advice to fold the model first, which was done another way."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
