"""The operations on tokens in numpy: pure functions of arrays, which keep the type of their numbers.

Legend: N = images, C = channels, H and W = rows and columns, P = pixels, Q and K = pixels of a window in q and k.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from prunus.arrays import Values
from prunus.graph.operations import AffineMap, Attention, JoinPixels, Rearrange

Tensors = Mapping[str, Values]
Pair = tuple[int, int]


def affine_map(operation: AffineMap, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    """Scale and shift every number by its own."""
    x = inputs[0]
    if "scale" in tensors:
        x = x * tensors["scale"]
    return x + tensors["bias"] if "bias" in tensors else x


def join_pixels(operation: JoinPixels, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    """Put constant pixels and those of the inputs one after the other."""
    images, channels = inputs[0].shape[:2]
    tokens = tensors.get("tokens", np.zeros((channels, operation.count), inputs[0].dtype))
    first = np.broadcast_to(tokens, (images, channels, operation.count))
    return np.concatenate([first, *(x.reshape(images, channels, -1) for x in inputs)], axis=2)[:, :, None]


def rearrange(operation: Rearrange, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    """Copy the numbers in another order."""
    x = np.ascontiguousarray(inputs[0])
    flat = x.reshape(len(x), -1)
    steps = (flat.strides[0], *(stride * x.itemsize for stride in operation.strides))
    view = np.lib.stride_tricks.as_strided(flat[:, operation.offset :], (len(x), *operation.sizes), steps)
    return np.ascontiguousarray(view).reshape(len(x), *operation.target)


def softmax(x: Values) -> Values:
    """Compute the softmax along the last axis; a row with NaN or infinity becomes NaN."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    result: Values = powers / powers.sum(axis=-1, keepdims=True)
    return result


def attention(operation: Attention, inputs: Sequence[Values], tensors: Tensors, sides: Pair) -> Values:
    """Compute head by head and image by image, to limit the scores in memory."""
    images, (dim, width) = len(inputs[0]), operation.dims
    q, k, v = (x.reshape(images, x.shape[1], -1) for x in inputs)
    whole = np.arange(q.shape[2])[None], np.arange(k.shape[2])[None]
    rows, columns = whole if operation.window is None else (operation.windows(sides),) * 2
    apart = _apart(operation, sides).astype(q.dtype)
    result = np.empty((images, operation.heads * width, q.shape[2]), q.dtype)
    for head in range(operation.heads):
        a, b, c = (first + head * step for first, step in zip(operation.first, operation.step, strict=True))
        for image in range(images):
            q_WQ = np.moveaxis(q[image, a : a + dim][:, rows], 0, -1) * q.dtype.type(operation.scale)
            scores = q_WQ @ np.moveaxis(k[image, b : b + dim][:, columns], 0, 1) + apart
            if "bias" in tensors:
                scores = scores + tensors["bias"][head]
            means = softmax(scores) @ np.moveaxis(v[image, c : c + width][:, columns], 0, -1)
            result[image, head * width : (head + 1) * width, rows] = means
    return result.reshape(images, operation.heads * width, *sides)


def _apart(operation: Attention, sides: Pair) -> Values:
    """Return what is added where a border is between two pixels of a window: (windows, Q, K), or a zero."""
    if operation.window is None or operation.apart == 0:
        return np.zeros(1)
    regions = operation.regions(sides)
    return np.where(regions[:, :, None] != regions[:, None, :], operation.apart, 0.0)
