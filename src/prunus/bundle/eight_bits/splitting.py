"""Plan the graph of an 8-bit file: activations that need a table become operations of their own.

An activation other than none, relu and relu6 is split off: the operation without it, then an `affine` without tensors
that has the activation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from prunus.arrays import Array
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.checks import tensor_roles
from prunus.bundle.eight_bits.record import KEY, longest_record
from prunus.bundle.eight_bits.rules import can_be_integer, can_be_split
from prunus.graph.operations import Activated, Affine, Graph, Operation

TENSORS = ("norm/", "shared/")


@dataclass(frozen=True)
class Origin:
    """Where an operation of a split graph comes from: an operation of the graph before, perhaps only its activation."""

    number: int
    is_activation: bool = False


@dataclass(frozen=True)
class Split:
    """A bundle with split operations, and where every operation comes from."""

    bundle: Bundle
    origins: tuple[Origin, ...]


def possible_integers(bundle: Bundle) -> tuple[int, ...]:
    """Return the operations that can compute with integers, some of them after they are split."""
    roles = _roles(bundle)
    shapes = bundle.manifest.shapes
    return tuple(
        number
        for number, operation in enumerate(bundle.manifest.graph)
        for sources in [[shapes[value] for value in operation.inputs]]
        if can_be_integer(operation, roles.get(number, ()), sources)
        or can_be_split(operation, roles.get(number, ()), sources)
    )


def split_activations(bundle: Bundle, integers: Collection[int]) -> Split:
    """Return a bundle in which these operations, and the activations split off them, compute with integers."""
    chosen, roles, shapes = set(integers), _roles(bundle), bundle.manifest.shapes
    graph: list[Operation] = []
    origins: list[Origin] = []
    values = [0]  # number of a value before -> now
    for number, operation in enumerate(bundle.manifest.graph):
        moved = operation.model_copy(update={"inputs": tuple(values[value] for value in operation.inputs)})
        sources = [shapes[value] for value in operation.inputs]
        is_split = number in chosen and can_be_split(moved, roles.get(number, ()), sources)
        graph.append(moved.model_copy(update={"activation": "none", "slope": 0.0}) if is_split else moved)
        origins.append(Origin(number))
        if is_split:
            assert isinstance(moved, Activated)
            graph.append(Affine(op="affine", inputs=(len(graph),), activation=moved.activation, slope=moved.slope))
            origins.append(Origin(number, is_activation=True))
        values.append(len(graph))
    numbers = tuple(number for number, origin in enumerate(origins) if origin.number in chosen)
    return Split(_with_graph(bundle, tuple(graph), origins, numbers), tuple(origins))


def planned(bundle: Bundle) -> Bundle:
    """Return a bundle in which everything that can computes with integers: no 8-bit file of it has a longer header."""
    bundle = split_activations(bundle, possible_integers(bundle)).bundle
    record = {KEY: longest_record(bundle.domains)}
    provenance = {"provenance": bundle.manifest.provenance | record}
    return Bundle(bundle.manifest.model_copy(update=provenance), bundle.arrays)


def _with_graph(bundle: Bundle, graph: Graph, origins: list[Origin], integers: tuple[int, ...]) -> Bundle:
    now = {origin.number: number for number, origin in enumerate(origins) if not origin.is_activation}
    arrays: dict[str, Array] = {}
    for name, array in bundle.arrays.items():
        if name.startswith(TENSORS):
            prefix, _, key = name.rpartition("/")
            number, _, role = key.partition(".")
            arrays[f"{prefix}/{now[int(number)]}.{role}"] = array
        else:
            arrays[name] = array
    return Bundle(bundle.manifest.with_graph(graph, integers), arrays)


def _roles(bundle: Bundle) -> dict[int, set[str]]:
    return tensor_roles({name.rpartition("/")[2] for name in bundle.arrays if name.startswith(TENSORS)})
