"""What the functions that write one operation need."""

from dataclasses import dataclass
from typing import Protocol

from prunus.graph.operations import Shape
from prunus.onnx.graph import OnnxGraph
from prunus.onnx.values import Values


class TensorSource(Protocol):
    """The source of an operation's tensors: kernels and what they are multiplied by are float32, others `real`."""

    def get(self, number: int, role: str, shape: tuple[int, ...] | None = None) -> str | None:
        """Return the name of a tensor, reshaped to `shape`; None if the operation has none of that role."""

    def head(self, role: str) -> str:
        """Return the name of the classifier's weight or bias."""


@dataclass(frozen=True)
class Writer:
    """Writes one operation; `source` and `target` are the shapes of its first input and of its result."""

    onnx: OnnxGraph
    tensors: TensorSource
    values: Values
    number: int
    source: Shape
    target: Shape
