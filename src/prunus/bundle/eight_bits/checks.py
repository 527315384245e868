"""Refuse 8-bit files whose operations, layers or numbers are not possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from prunus.arrays import Array
from prunus.bundle.eight_bits.rules import LARGEST_WEIGHT, MAX_SCALE, MIN_SCALE, can_be_integer, shared_codings
from prunus.errors import BundleError
from prunus.graph.operations import Conv

if TYPE_CHECKING:
    from prunus.bundle.manifest import Manifest


def wrong_integers(manifest: Manifest, tensors: Collection[str]) -> str | None:
    """Return what is wrong with the integer operations and the wide layers of a manifest; None if nothing is.

    Args:
        tensors: the names of all tensors, as "<number of the operation>.<role>".
    """
    wide = set(manifest.wide)
    if list(manifest.wide) != [layer for layer in manifest.convs if layer in wide]:
        return "its wide layers are not layers of its graph, in their order"
    if list(manifest.integers) != sorted(set(manifest.integers)):
        return "its 8-bit operations are not in order"
    roles = tensor_roles(tensors)
    for number in manifest.integers:
        operation = manifest.graph[number] if number < len(manifest.graph) else None
        if operation is None or (isinstance(operation, Conv) and operation.layer in wide):
            return f"its operation {number} cannot compute with 8-bit integers"
        if not can_be_integer(operation, roles.get(number, ()), [manifest.shapes[value] for value in operation.inputs]):
            return f"its operation {number} ({operation.op}) cannot compute with 8-bit integers"
    return None


def tensor_roles(tensors: Collection[str]) -> dict[int, set[str]]:
    """Return the roles of the tensors that every operation has."""
    roles: dict[int, set[str]] = {}
    for name in tensors:
        number, _, role = name.partition(".")
        roles.setdefault(int(number), set()).add(role)
    return roles


def check_codes(manifest: Manifest, arrays: Mapping[str, Array]) -> None:
    """Refuse scales that are not possible, weights out of range, and codings that must be the same but are not."""
    for name, array in arrays.items():
        kind, _, rest = name.partition("/")
        is_scale = kind == "scale" or (kind in ("coding", "head") and rest.endswith("/scale"))
        if is_scale and not ((array >= MIN_SCALE) & (array <= MAX_SCALE)).all():  # type: ignore[operator]  # floats
            raise BundleError(f"it is damaged: {name!r} has a scale that is not from 2^-40 to 2^40")
        if array.dtype == np.int8 and array.size and int(array.min()) < -LARGEST_WEIGHT:
            raise BundleError(f"it is damaged: {name!r} has a code below -{LARGEST_WEIGHT}")
    index = {value: position for position, value in enumerate(manifest.coded)}
    pairs = [(index[source], index[result]) for source, result in shared_codings(manifest.graph, manifest.integers)]
    if not pairs:
        return
    sources, results = (list(side) for side in zip(*pairs, strict=True))
    for domain in manifest.domains:
        for role in ("scale", "zero"):
            codings = arrays[f"coding/{domain}/{role}"]
            if (codings[sources] != codings[results]).any():
                raise BundleError(
                    f"it is damaged: in domain {domain!r} an operation that keeps codes changes their {role}"
                )
