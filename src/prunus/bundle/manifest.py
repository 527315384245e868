"""What a model file says about itself, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prunus.graph.limits import MAX_DOMAIN_NAME, MAX_DOMAINS, MAX_IMAGE_SIDE, MAX_OPERATIONS
from prunus.graph.operations import Conv, Graph, Shape
from prunus.graph.shapes import value_shapes
from prunus.images import Preprocess

Provenance = dict[str, Any]  # recipe, versions and steps, as JSON
DomainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=MAX_DOMAIN_NAME)]


class ManifestPart(BaseModel):
    """Frozen; an unknown key means another format."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class ConvEntry:
    """One convolution: output channels, input channels of a group, kernel, output pixels of one image.

    `dense_kernels` counts the kernels that it had before pruning.
    """

    out_channels: int
    in_channels: int
    groups: int
    kernel: tuple[int, int]
    positions: int
    dense_kernels: int

    @property
    def num_kernels(self) -> int:
        """Count the 2-D kernels of the layer, were all of them kept."""
        return self.out_channels * self.in_channels


class DomainEntry(ManifestPart):
    """What one domain recognises and how its images are prepared."""

    classes: tuple[str, ...] = Field(min_length=1)
    preprocess: Preprocess


class Manifest(ManifestPart):
    """Everything about a model but its numbers."""

    backbone: str
    image_size: int = Field(ge=1, le=MAX_IMAGE_SIDE)
    graph: Annotated[Graph, Field(min_length=1, max_length=MAX_OPERATIONS)]
    domains: dict[DomainName, DomainEntry] = Field(min_length=1, max_length=MAX_DOMAINS)
    dense_bytes: int = Field(ge=0)
    provenance: Provenance

    @cached_property
    def shapes(self) -> list[Shape]:
        """Give the shape of every value of the graph, the image first."""
        return value_shapes(self.graph, self.image_size)

    @property
    def num_features(self) -> int:
        """Count the numbers that a classifier sees."""
        channels, height, width = self.shapes[-1]
        return channels * height * width

    @cached_property
    def convs(self) -> dict[str, ConvEntry]:
        """Describe every convolution by its name, in the order of the graph."""
        found: dict[str, ConvEntry] = {}
        for operation, (_, height, width) in zip(self.graph, self.shapes[1:], strict=True):
            if isinstance(operation, Conv):
                out, in_group = operation.channels
                was_out, was_in = operation.was or operation.channels
                positions = height * width + (found[operation.layer].positions if operation.layer in found else 0)
                found[operation.layer] = ConvEntry(
                    out, in_group, operation.groups, operation.kernel, positions, was_out * was_in
                )
        return found
