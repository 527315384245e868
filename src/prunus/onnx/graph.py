"""An ONNX graph as plain data that does not need the onnx package."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from prunus.arrays import Array

Attribute = int | float | str | tuple[int, ...]
TYPES: dict[str, int] = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "bool": 9,
    "float16": 10,
}  # ONNX's numbers of them


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX operator."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Attribute]
    more_outputs: tuple[str, ...] = ()


@dataclass
class OnnxGraph:
    """Nodes in the order in which they run, and the tensors of the model.

    Args:
        real: the type of the numbers that operations compute with.
    """

    real: npt.DTypeLike = np.float32
    nodes: list[OnnxNode] = field(default_factory=list)
    tensors: dict[str, Array] = field(default_factory=dict)

    def node(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """Add an operator and return the name of its result."""
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(OnnxNode(op, inputs, name, attributes))
        return name

    def rename_last(self, name: str) -> str:
        """Rename the result of the last operator, and return the new name."""
        self.nodes[-1] = replace(self.nodes[-1], output=name)
        return name

    def split(self, x: str, sizes: Sequence[int]) -> list[str]:
        """Add an operator that cuts a tensor into parts along its first axis, and return their names."""
        name = f"Split_{len(self.nodes)}"
        names = [name, *(f"{name}_{part}" for part in range(1, len(sizes)))]
        lengths = self.tensor(f"{name}.sizes", np.array(sizes, dtype=np.int64))
        self.nodes.append(OnnxNode("Split", (x, lengths), name, {"axis": 0}, tuple(names[1:])))
        return names

    def tensor(self, name: str, array: Array) -> str:
        """Add a tensor and return its name."""
        self.tensors[name] = array
        return name

    def cast(self, x: str, dtype: npt.DTypeLike) -> str:
        """Add an operator that converts numbers, and return the name of its result."""
        return self.node("Cast", x, to=TYPES[np.dtype(dtype).name])

    def integers(self, *numbers: int) -> str:
        """Add a row of integers once and return its name."""
        return self.tensor(f"integers_{'_'.join(map(str, numbers))}", np.array(numbers, dtype=np.int64))

    def number(self, value: float, dtype: npt.DTypeLike | None = None) -> str:
        """Add a number once and return its name; its type is `real` unless told."""
        number = np.array(value, dtype=self.real if dtype is None else dtype)
        return self.tensor(f"{number.dtype.name}_{value:g}", number)
