"""The operations of a network's graph, as plain data.

A value is what an operation computes from one image: channels x height x width. Value 0 is the image, operation k
(counted from 0) computes value k + 1, and the last value, flattened, holds the features that a domain's classifier
reads. Numbers such as weights are not stored here: an operation names the tensors it needs by role (`tensors`), and
a network or a model file holds them.

To add an operation, declare its class in this folder and add it to `OPERATIONS`. Then add a row to five tables:
`RULES` of `lowering/rules/table.py`, `TORCH` of `torch_graph/operations.py`, `NUMPY` of `graph/compute.py`, `STEPS` of
`runtime/native_engine.py` and `NODES` of `onnx/nodes.py`. In 8-bit files it then computes with floats, until it has a
row in `RULES` of `bundle/eight_bits/rules.py` and in `INTEGER` of `integers/factors.py`.

What costs depend on is declared with the operation: one that multiplies values with each other counts that in `macs`,
and what of it pruning has removed in `removed_macs`. One that computes pixels by themselves says so in `is_pixelwise`
or `pixelwise_inputs`, so that pixels that nothing reads are left out.
"""

from typing import Annotated, get_args

from pydantic import BeforeValidator, SerializeAsAny, ValidationError

from prunus.graph.operations.base import (
    Activated,
    ActivationName,
    ChannelRule,
    Operation,
    Pads,
    Shape,
    Value,
)
from prunus.graph.operations.images import Add, Affine, AppendZeros, Cat, Conv, LayerNorm, Mean, Mul, Pool
from prunus.graph.operations.tokens import AffineMap, Attention, JoinPixels, Rearrange

__all__ = [
    "OPERATIONS",
    "Activated",
    "ActivationName",
    "Add",
    "Affine",
    "AffineMap",
    "AppendZeros",
    "Attention",
    "Cat",
    "ChannelRule",
    "Conv",
    "Graph",
    "JoinPixels",
    "LayerNorm",
    "Mean",
    "Mul",
    "Operation",
    "Pads",
    "Pool",
    "Rearrange",
    "Shape",
    "Value",
    "operation_name",
    "parse_operation",
]


def operation_name(kind: type[Operation]) -> str:
    """Return the name of an operation in a graph."""
    return str(get_args(kind.model_fields["op"].annotation)[0])


OPERATIONS: dict[str, type[Operation]] = {
    operation_name(kind): kind
    for kind in (
        *(Conv, Affine, LayerNorm, Add, Mul, Cat, AppendZeros, Pool, Mean),
        *(AffineMap, JoinPixels, Rearrange, Attention),
    )
}


def parse_operation(content: object) -> Operation:
    """Look up an operation by its name and check its fields."""
    if isinstance(content, Operation):
        return content
    name = content.get("op") if isinstance(content, dict) else None
    if not isinstance(name, str) or name not in OPERATIONS:
        raise ValueError(f"unknown operation {str(name)[:100]!r}; known: {', '.join(OPERATIONS)}")
    try:
        return OPERATIONS[name].model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{name} {location}: {first['msg']}") from None


Graph = tuple[Annotated[SerializeAsAny[Operation], BeforeValidator(parse_operation)], ...]
