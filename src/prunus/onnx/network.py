"""One domain's network: the operations, their numbers and the classifier, with nothing of the other domains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.graph.operations import Graph
from prunus.graph.shapes import Shape, value_shapes
from prunus.runtime.tensors import DomainTensors, domain_tensors


@dataclass(frozen=True)
class DomainNetwork:
    """A graph whose operations have their tensors, by role, and a linear head."""

    graph: Graph
    image_size: int
    tensors: DomainTensors
    head_weight: Floats
    head_bias: Floats

    @cached_property
    def shapes(self) -> list[Shape]:
        """Give the shape of every value, the image first."""
        return value_shapes(self.graph, self.image_size)


def domain_network(bundle: Bundle, domain: str) -> DomainNetwork:
    """Take one domain's network out of a bundle, with all channels of the union."""
    weight, bias = bundle.head(domain)
    manifest = bundle.manifest
    return DomainNetwork(manifest.graph, manifest.image_size, domain_tensors(bundle, domain), weight, bias)
