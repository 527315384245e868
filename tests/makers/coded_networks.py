"""What a coded network computes, in double precision and with every result rounded to its code."""

from __future__ import annotations

import numpy as np

from prunus.arrays import Array, Floats
from prunus.graph.compute import compute
from prunus.onnx.coded_network import CodedNetwork


def coded_values(coded: CodedNetwork, domain: int, images: Floats) -> dict[str, Array]:
    """Return the values of a domain by the names that models give them, also of those that are floats and codes."""
    values: dict[str, Array] = {"images": images}
    network = coded.network

    def encode(value: int, numbers: Array, low: int = 0, high: int = 255) -> None:
        scales, zeros = coded.codings[value].doubles()
        codes = np.rint(np.clip(numbers.astype(np.float64) / scales[domain] + zeros[domain], low, high))
        values[f"codes.{value}"] = codes.astype(np.uint8)

    def decoded(value: int) -> Array:
        if f"codes.{value}" not in values:
            encode(value, values[_floats(value)])
        scales, zeros = coded.codings[value].doubles()
        return np.asarray(scales[domain] * (values[f"codes.{value}"].astype(np.float64) - zeros[domain]))

    def numbers(value: int) -> Array:
        return values[_floats(value)].astype(np.float64) if _floats(value) in values else decoded(value)

    for number, operation in enumerate(network.graph):
        read = decoded if number in coded.integers else numbers
        tensors = {role: x.astype(np.float64) for role, x in network.domain_tensors(domain, number).items()}
        inputs = [read(value).astype(np.float64) for value in operation.inputs]
        result = compute(operation, inputs, tensors, network.shapes[number + 1][1:])
        if number in coded.integers:
            encode(number + 1, result, *coded.limits(number, operation)[domain])
        else:
            values[_floats(number + 1)] = result
    weight, bias = (tensor.astype(np.float64) for tensor in network.heads[domain])
    features = numbers(len(network.graph)).reshape(len(images), -1).astype(np.float64)
    values["logits"] = features @ weight.T + bias
    return values


def _floats(value: int) -> str:
    return f"floats.{value}" if value else "images"
