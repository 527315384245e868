"""Which pixels see each other in an attention, and how its bias depends on that.

Legend: D = domains, W = windows, H = heads, Q and K = pixels of a window in q and in k.
"""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Doubles, Integers
from prunus.errors import BundleError
from prunus.graph.operations import Attention, Shape
from prunus.lowering.rules.heads import Heads

Order = list[int]  # the window of an attention for each window of a traced tensor
SAME = 1e-4  # biases: a traced network may add them up in another order


def place_windows(
    operation: Attention, shapes: Sequence[Shape], qkv: Sequence[Heads]
) -> tuple[Attention, Order] | None:
    """Return an attention with the windows of q, k and v, whose values have some shapes; None if it can't have them."""
    if all(heads.are_whole(shape) for heads, shape in zip(qkv, shapes, strict=True)):
        return operation, [0]
    q, *others = (heads.pixels for heads in qkv)
    if len(q) == 1 or not all(torch.equal(q, other) for other in others):
        return None
    wanted_WQ: Integers = q.numpy()
    for windowed in _guesses(operation, wanted_WQ, shapes[0][2]):
        order = _order(windowed, wanted_WQ, shapes)
        if order is not None:
            return windowed, order
    return None


def _guesses(operation: Attention, wanted_WQ: Integers, width: int) -> Iterator[Attention]:
    """Yield attentions with a window like one of those that are wanted; one that goes around a border tells nothing."""
    for window in wanted_WQ:
        rows, columns = np.divmod(window, width)
        sides = [np.unique(rows), np.unique(columns)]
        lengths = (len(sides[0]), len(sides[1]))
        if prod(lengths) != len(window) or (rows != np.sort(rows)).any():
            continue
        every = tuple(int(np.diff(side).min()) if len(side) > 1 else 1 for side in sides)
        shift = tuple(
            int(axis[0]) % (length * step) for axis, length, step in zip((rows, columns), lengths, every, strict=True)
        )
        for start in ((0, 0), shift):
            yield operation.model_copy(update={"window": lengths, "every": every, "shift": start})


def _order(operation: Attention, wanted_WQ: Integers, shapes: Sequence[Shape]) -> Order | None:
    """Return which window of an attention each of those that are wanted is, if they are the same windows."""
    try:
        operation.shape(shapes)
    except BundleError:
        return None
    numbers = {tuple(window): number for number, window in enumerate(operation.windows(shapes[0][1:]).tolist())}
    order = [numbers.get(tuple(window), -1) for window in wanted_WQ.tolist()]
    return order if sorted(order) == list(range(len(numbers))) else None


def place_bias(
    operation: Attention, biases_DWHQK: Tensor, order: Order, sides: Sequence[int]
) -> tuple[Attention, Doubles] | None:
    """Divide a bias into one that all windows share and what is added where a border is between two pixels."""
    pairs = (int(biases_DWHQK.shape[-2]), int(biases_DWHQK.shape[-1]))
    shared_DHQK = biases_DWHQK[:, 0]
    if bool((biases_DWHQK == shared_DHQK[:, None]).all()):
        return operation.model_copy(update={"pairs": pairs}), shared_DHQK.numpy()
    if operation.window is None:
        return None
    regions = torch.from_numpy(operation.regions(sides))[order]
    is_apart_WQK = regions[:, :, None] != regions[:, None, :]
    inner = next((number for number in range(len(order)) if not is_apart_WQK[number].any()), None)
    if inner is None:
        return None
    shared_DHQK = biases_DWHQK[:, inner]
    rest = biases_DWHQK - shared_DHQK[:, None]
    apart = float(rest.flatten()[rest.abs().argmax()])
    expected = apart * is_apart_WQK[None, :, None].double()
    if not torch.allclose(rest, expected.expand_as(rest), atol=SAME):
        return None
    return operation.model_copy(update={"pairs": pairs, "apart": apart}), shared_DHQK.numpy()
