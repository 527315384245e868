"""The arithmetic of 8-bit steps, number by number, as the documentation states it: shares no code with the engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import e, erf, exp, expm1, factorial, log, log1p, log2, prod, sqrt, tanh

import numpy as np

from prunus.arrays import Array, Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import Attention, Conv, Operation, Pool

F = np.float32


class PlainNetwork:
    """One domain of an 8-bit bundle whose operations all compute with integers."""

    def __init__(self, bundle: Bundle, domain: str) -> None:
        self.bundle = bundle
        self.domain = domain
        self.manifest = bundle.manifest
        scales, zeros = (bundle.arrays[f"coding/{domain}/{role}"] for role in ("scale", "zero"))
        pairs = zip(scales.tolist(), zeros.tolist(), strict=True)
        self.coding: Mapping[int, tuple[float, int]] = dict(zip(self.manifest.coded, pairs, strict=True))

    def values(self, image: Floats) -> list[Array]:
        """Return the codes of every value."""
        scale, zero = self.coding[0]
        codes = F(image) * F(1.0 / scale) + F(zero)
        values: list[Array] = [np.rint(np.clip(codes, 0, 255)).astype(int)]
        for number, operation in enumerate(self.manifest.graph):
            values.append(self._compute(number, operation, [values[value] for value in operation.inputs]))
        return values

    def logits(self, last: Array) -> Floats:
        """Return the logits of the codes of the last value."""
        features = last.reshape(-1)
        scale, zero = self.coding[len(self.manifest.graph)]
        weight = self.bundle.arrays[f"head/{self.domain}/weight"].astype(int)
        scales, biases = (self.bundle.arrays[f"head/{self.domain}/{role}"].tolist() for role in ("scale", "bias"))
        rows = []
        for row, s, bias in zip(weight, scales, biases, strict=True):
            total = sum(int(w) * int(q) for w, q in zip(row, features, strict=True))
            rows.append(F(F(total) * F(s * scale)) + F(bias - s * scale * zero * int(row.sum())))
        return np.array(rows, F)

    def _compute(self, number: int, operation: Operation, inputs: list[Array]) -> Array:
        shape = self.manifest.shapes[number + 1]
        result = np.zeros(shape, int)
        if isinstance(operation, Attention):
            for head, query in np.ndindex(operation.heads, prod(shape[1:])):
                first = head * operation.dims[1]
                codes = self._attend(number, operation, inputs, head, query)
                result.reshape(shape[0], -1)[first : first + operation.dims[1], query] = codes
            return result
        for position in np.ndindex(*shape):
            result[position] = self._code(number, operation, inputs, position)
        return result

    def _code(self, number: int, operation: Operation, x: list[Array], at: tuple[int, ...]) -> int:  # noqa: PLR0911
        codings = [self.coding[value] for value in operation.inputs]
        (s, z), (s_y, z_y) = codings[0], self.coding[number + 1]
        if isinstance(operation, Conv):
            return self._conv(number, operation, x, at)
        if operation.op == "affine" and operation.activation not in ("none", "relu", "relu6"):  # type: ignore[attr-defined]
            y = activation(operation.activation, s * (int(x[0][at]) - z), operation.slope)  # type: ignore[attr-defined]
            return nearest(y, s_y, z_y)
        if operation.op == "affine":
            gain, bias = self._tensor(number, "scale", at[0], 1.0), self._tensor(number, "bias", at[0], 0.0)
            t = F(F(x[0][at]) * F(gain * (s / s_y))) + F(bias / s_y + z_y - gain * (s / s_y) * z)
            return self._limited(number, operation, t)
        if operation.op == "add":
            s_b, z_b = codings[1]
            t = F(F(x[0][at]) * F(s / s_y)) + F(F(x[1][at]) * F(s_b / s_y))
            return self._limited(number, operation, F(t) + F(z_y - s / s_y * z - s_b / s_y * z_b))
        if operation.op == "mul":
            other = at if x[1].shape == x[0].shape else (at[0], 0, 0)
            product = (int(x[0][at]) - z) * (int(x[1][other]) - codings[1][1])
            return self._limited(number, operation, F(F(product) * F(s * codings[1][0] / s_y)) + F(z_y))
        if operation.op in ("cat", "append_zeros"):
            return _joined(x, codings, (s_y, z_y), at)
        window = [x[0][at[0], row, column] for row, column in self._window(operation, x[0].shape, at)]
        if isinstance(operation, Pool) and operation.kind == "max":
            return int(max(window))
        total = sum(int(q) - z for q in window)
        t = F(F(total) * F(s / s_y / self._pixels(operation, x[0].shape, at))) + F(z_y)
        return int(np.rint(np.clip(t, 0, 255)))

    def _attend(self, number: int, attention: Attention, x: list[Array], head: int, query: int) -> list[int]:
        """Return the codes of one head and query."""
        (s_q, z_q), (s_k, _), (s_v, z_v) = (self.coding[value] for value in attention.inputs)
        s_y, z_y = self.coding[number + 1]
        q, k, v = (codes.reshape(len(codes), -1).astype(int) for codes in x)
        a, b, c = (first + head * step for first, step in zip(attention.first, attention.step, strict=True))
        keys, row, regions = list(range(k.shape[1])), query, None
        if attention.window is not None:
            sides = self.manifest.shapes[number + 1][1:]
            for window, of_window in zip(attention.windows(sides), attention.regions(sides), strict=True):
                if query in window:
                    keys, row, regions = window.tolist(), window.tolist().index(query), of_window
        bias = self.bundle.tensor(self.domain, number, "bias")
        scores = []
        for column, key in enumerate(keys):
            total = sum(int(q[a + i, query] - z_q) * int(k[b + i, key] - 128) for i in range(attention.dims[0]))
            t = F(F(total) * F(attention.scale * log2(e) * s_q * s_k))
            if bias is not None:
                t = F(t + F(float(bias[head, row, column]) * log2(e)))
            if regions is not None and regions[row] != regions[column]:
                t = F(t + F(attention.apart * log2(e)))
            scores.append(t)
        weights = [power_code(F(t - max(scores))) for t in scores]
        factor = F(F(s_v / s_y) / F(sum(weights)))
        means = []
        for channel in range(c, c + attention.dims[1]):
            total = sum(weight * int(v[channel, key] - z_v) for weight, key in zip(weights, keys, strict=True))
            means.append(int(np.rint(np.clip(F(F(F(total) * factor) + F(z_y)), 0, 255))))
        return means

    def _conv(self, number: int, conv: Conv, x: list[Array], at: tuple[int, ...]) -> int:
        o = at[0]
        (s, z), (s_y, z_y) = self.coding[conv.inputs[0]], self.coding[number + 1]
        mask = self.bundle.mask(self.domain, conv.layer)
        codes = self.bundle.weight_codes(conv.layer, mask)[o].astype(int)
        first = o // (conv.channels[0] // conv.groups) * conv.channels[1]
        total = 0
        for (i, row, column), weight in np.ndenumerate(codes):
            p = at[1] * conv.stride[0] + row * conv.dilation[0] - conv.pads[0]
            q = at[2] * conv.stride[1] + column * conv.dilation[1] - conv.pads[1]
            inside = 0 <= p < x[0].shape[1] and 0 <= q < x[0].shape[2]
            total += int(weight) * (int(x[0][first + i, p, q]) if inside else z)
        gain, bias = self._tensor(number, "scale", o, 1.0), self._tensor(number, "bias", o, 0.0)
        real = s * float(self.bundle.arrays[f"scale/{conv.layer}"][o]) * gain
        offset = (bias - real * z * int(codes.sum())) / s_y + z_y
        if len(x) == 1:
            return self._limited(number, conv, F(F(total) * F(real / s_y)) + F(offset))
        s_r, z_r = self.coding[conv.inputs[1]]
        t = F(F(total) * F(real / s_y)) + F(offset - s_r / s_y * z_r)
        return self._limited(number, conv, F(t) + F(F(x[1][at]) * F(s_r / s_y)))

    def _tensor(self, number: int, role: str, channel: int, missing: float) -> float:
        stored = self.bundle.tensor(self.domain, number, role)
        return missing if stored is None else float(stored[channel])

    def _limited(self, number: int, operation: Operation, t: np.floating) -> int:
        scale, zero = self.coding[number + 1]
        name = operation.activation  # type: ignore[attr-defined]
        low = 0 if name == "none" else zero
        high = min(255, zero + round(6 / scale)) if name == "relu6" else 255
        return int(np.rint(min(max(F(t), F(low)), F(high))))

    def _window(self, operation: Operation, shape: tuple[int, ...], at: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Yield the pixels of the image in a window."""
        if not isinstance(operation, Pool):
            yield from np.ndindex(*shape[1:])
            return
        for row, column in np.ndindex(*operation.kernel):
            p = at[1] * operation.stride[0] + row - operation.pads[0]
            q = at[2] * operation.stride[1] + column - operation.pads[1]
            if 0 <= p < shape[1] and 0 <= q < shape[2]:
                yield p, q

    def _pixels(self, operation: Operation, shape: tuple[int, ...], at: tuple[int, ...]) -> int:
        if not isinstance(operation, Pool) or not operation.count_pads:
            return sum(1 for _ in self._window(operation, shape, at))
        sides = []
        for axis in (0, 1):
            start = at[axis + 1] * operation.stride[axis] - operation.pads[axis]
            end = min(start + operation.kernel[axis], shape[axis + 1] + operation.pads[axis + 2])
            sides.append(end - start)
        return prod(sides)


def _joined(x: list[Array], codings: list[tuple[float, int]], result: tuple[float, int], at: tuple[int, ...]) -> int:
    channel = at[0]
    for codes, (scale, zero) in zip(x, codings, strict=True):
        if channel < len(codes):
            code = int(codes[channel, at[1], at[2]])
            return code if (scale, zero) == result else nearest(scale * (code - zero), *result)
        channel -= len(codes)
    return result[1]


def power_code(exponent: np.float32) -> int:
    """Return 255 * 2^exponent, by the series of the documentation."""
    limited = max(exponent, F(-16))
    whole = int(np.rint(limited))
    rest, power = F(limited - F(whole)), F(0)
    for k in (4, 3, 2, 1, 0):
        power = F(F(power * rest) + F(log(2) ** k / factorial(k)))
    return int(np.rint(F(power * F(255 * 2.0**whole))))


def nearest(number: float, scale: float, zero: int) -> int:
    """Return the code nearest to a number."""
    return int(np.rint(min(max(number / scale + zero, 0), 255)))


def activation(name: str, x: float, slope: float) -> float:
    """Compute an activation as the table of the documentation states it."""
    six = min(max(x + 3, 0), 6)
    sigmoid = 1 / (1 + exp(-x)) if x > -700 else 0.0
    return {
        "leaky_relu": x if x >= 0 else slope * x,
        "elu": x if x > 0 else slope * expm1(x),
        "silu": x * sigmoid,
        "sigmoid": sigmoid,
        "tanh": tanh(x),
        "gelu": x * (1 + erf(x / sqrt(2))) / 2,
        "gelu_tanh": x * (1 + tanh(sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
        "mish": x * tanh(log1p(exp(x)) if x < 700 else x),
        "hard_sigmoid": six / 6,
        "hard_swish": x * six / 6,
    }[name]
