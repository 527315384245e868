"""Join operations that a runtime computes in one go: a convolution with its norm, its residual and its activation.

What an operation is joined with must be read by it alone; the joined operation stands where the later one stood.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from prunus.graph.operations import Add, Affine, Conv, Mul
from prunus.lowering.draft import Draft, scale_and_bias, without_neutral


def fuse(drafts: Sequence[Draft]) -> list[Draft]:
    """Join what can be joined, and leave out what nothing reads."""
    found: list[Draft | None] = list(drafts)
    readers = Counter(value for draft in drafts for value in draft.operation.inputs)
    readers[len(drafts)] += 1  # the classifier
    for place, draft in enumerate(drafts):
        for value in sorted(set(draft.operation.inputs), reverse=True):  # of two that could, the later is joined
            source = found[value - 1] if value and readers[value] == 1 else None
            joined = source and _join(source, draft, value)
            if joined:
                found[place], found[value - 1] = joined, None
                break
    return _renumber(found)


def _join(source: Draft, draft: Draft, value: int) -> Draft | None:
    if isinstance(draft.operation, Add):
        return _with_residual(source, draft.operation, value)
    return _with_affine(source, draft) if isinstance(draft.operation, Affine) else None


def _with_residual(source: Draft, add: Add, value: int) -> Draft | None:
    conv = source.operation
    if not isinstance(conv, Conv) or conv.activation != "none" or len(conv.inputs) > 1:
        return None
    other = next(each for each in add.inputs if each != value)
    update = {"inputs": (conv.inputs[0], other), "activation": add.activation, "slope": add.slope}
    return Draft(conv.model_copy(update=update), source.tensors)


def _with_affine(source: Draft, draft: Draft) -> Draft | None:
    first, second = source.operation, draft.operation
    if not isinstance(first, (Conv, Affine, Add, Mul)) or first.activation != "none":
        return None
    assert isinstance(second, Affine)
    last = first.model_copy(update={"activation": second.activation, "slope": second.slope})
    if not draft.tensors:
        return Draft(last, source.tensors)
    if not isinstance(first, (Conv, Affine)) or len(first.inputs) > 1:  # a residual would be scaled as well
        return None
    shape = next(iter(draft.tensors.values())).shape
    (scale, bias), (again, more) = scale_and_bias(source.tensors, shape), scale_and_bias(draft.tensors, shape)
    merged = {"scale": scale * again, "bias": bias * again + more}
    return Draft(last, without_neutral({**source.tensors, **merged}))


def _renumber(drafts: Sequence[Draft | None]) -> list[Draft]:
    """Number values anew, those that nothing reads left out."""
    wanted = {len(drafts)}
    for value in range(len(drafts), 0, -1):
        draft = drafts[value - 1]
        if value in wanted and draft:
            wanted |= set(draft.operation.inputs)
    kept = [(value, draft) for value, draft in enumerate(drafts, 1) if value in wanted and draft]
    numbers = {0: 0} | {value: number for number, (value, _) in enumerate(kept, 1)}
    return [
        Draft(
            draft.operation.model_copy(update={"inputs": tuple(numbers[value] for value in draft.operation.inputs)}),
            {role: np.ascontiguousarray(tensor) for role, tensor in draft.tensors.items()},
        )
        for _, draft in kept
    ]
