"""Choose the coding of every value that can be coded, in every domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from prunus.arrays import Array, Doubles
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import shared_codings
from prunus.bundle.eight_bits.splitting import Origin, Split, possible_integers, split_activations
from prunus.bundle.packing import from_bundle
from prunus.graph.activations import ACTIVATIONS
from prunus.graph.operations import Activated, Cat, Graph
from prunus.quantizing.images import Loading, Pictures
from prunus.quantizing.observing import observe
from prunus.quantizing.ranges import RULES, Function, Histogram, RangeRule, coding_of, unchanged

Place = tuple[int, bool]  # an operation before it is split, or -1 for the image; whether its activation is computed
DomainCodings = dict[Place, tuple[float, int]]


def unwatched(domain: str, done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Calibration:
    """The codings of all values that a bundle of floats could have, by domain."""

    by_domain: Mapping[str, DomainCodings]

    def arrays(self, split: Split) -> dict[str, Array]:
        """Return the codings of the values that a split bundle needs, as its file stores them."""
        places = value_places(split.origins)
        coded = split.bundle.manifest.coded
        arrays: dict[str, Array] = {}
        for domain in split.bundle.domains:
            pairs = [self.by_domain[domain][places[value]] for value in coded]
            arrays[f"coding/{domain}/scale"] = np.array([scale for scale, _ in pairs], np.float32)
            arrays[f"coding/{domain}/zero"] = np.array([zero for _, zero in pairs], np.uint8)
        return arrays


def calibrate(
    bundle: Bundle, images: Mapping[str, Pictures], rule: RangeRule, watch: Loading = unwatched
) -> Calibration:
    """Run a bundle of floats on images of each domain and choose codings by a rule."""
    split = split_activations(bundle, possible_integers(bundle))
    places = value_places(split.origins)
    graph = split.bundle.manifest.graph
    groups = coding_groups(graph, split.bundle.manifest.integers)
    functions = _functions(split)
    by_domain = {}
    for domain in bundle.domains:
        histograms = observe(from_bundle(split.bundle, [domain]), 0, images[domain])
        watch(domain, len(images[domain]), len(images[domain]))
        chosen = {
            value: coding_of(RULES[rule](_widest(histograms, group), functions.get(value, unchanged)))
            for value, group in groups.items()
        }
        by_domain[domain] = {places[value]: coding for value, coding in chosen.items()}
    return Calibration(by_domain)


def value_places(origins: Sequence[Origin]) -> list[Place]:
    """Return what every value is: the result of an operation before or after its activation."""
    split_off = {origin.number for origin in origins if origin.is_activation}
    return [(-1, True), *((o.number, o.is_activation or o.number not in split_off) for o in origins)]


def coding_groups(graph: Graph, integers: Sequence[int]) -> dict[int, list[int]]:
    """Return for every value those that share its coding, itself among them.

    Operations that keep codes share them. So do a concatenation and one that it extends, or else each would round
    again what all earlier ones have rounded.
    """
    home = list(range(len(graph) + 1))
    chained = [
        (value, number + 1)
        for number in integers
        if isinstance(graph[number], Cat)
        for value in graph[number].inputs
        if value and isinstance(graph[value - 1], Cat)
    ]
    for source, result in sorted([*shared_codings(graph, integers), *chained], key=lambda pair: pair[1]):
        first, second = home[source], home[result]
        home = [first if value == second else value for value in home]
    members: dict[int, list[int]] = {}
    for value, first in enumerate(home):
        members.setdefault(first, []).append(value)
    return {value: members[first] for value, first in enumerate(home)}


def _functions(split: Split) -> dict[int, Function]:
    """Return the activation that is computed of a value's codes, and of nothing else of it."""
    graph = split.bundle.manifest.graph
    functions: dict[int, Function] = {}
    for operation, origin in zip(graph, split.origins, strict=True):
        if origin.is_activation and isinstance(operation, Activated):
            functions[operation.inputs[0]] = partial(_activated, operation)
    return functions


def _activated(operation: Activated, numbers: Doubles) -> Doubles:
    return np.asarray(ACTIVATIONS[operation.activation](numbers, operation.slope), np.float64)


def _widest(histograms: Sequence[Histogram], group: Sequence[int]) -> Histogram:
    return max((histograms[value] for value in group), key=lambda histogram: histogram.high - histogram.low)
