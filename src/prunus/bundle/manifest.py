"""The description of a model: its graph, its domains and its provenance."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prunus.bundle.eight_bits.rules import coded_values
from prunus.graph.limits import MAX_COUNT, MAX_DOMAINS, MAX_IMAGE_SIDE, MAX_OPERATIONS
from prunus.graph.operations import Conv, Graph, Shape
from prunus.graph.shapes import value_shapes
from prunus.images import Preprocess
from prunus.names import DOMAIN_NAME, MAX_DOMAIN_NAME

Provenance = dict[str, Any]  # recipe, versions and steps, as JSON
Number = Annotated[int, Field(ge=0, lt=MAX_OPERATIONS)]  # of an operation
DomainName = Annotated[str, Field(pattern=DOMAIN_NAME, max_length=MAX_DOMAIN_NAME)]


class ManifestPart(BaseModel):
    """A frozen part of a manifest; an unknown key means another format."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class ConvEntry:
    """One convolution layer.

    Args:
        in_channels: the input channels of one group.
        positions: the output pixels of one image.
        dense_kernels: the number of kernels before pruning.
    """

    out_channels: int
    in_channels: int
    groups: int
    kernel: tuple[int, int]
    positions: int
    dense_kernels: int

    @property
    def num_kernels(self) -> int:
        """Return the number of 2-D kernels, kept or not."""
        return self.out_channels * self.in_channels


class DomainEntry(ManifestPart):
    """The classes of a domain and the preprocessing of its images."""

    classes: tuple[str, ...] = Field(min_length=1)
    preprocess: Preprocess


class Manifest(ManifestPart):
    """A model without its numbers.

    Args:
        integers: the operations that compute with 8-bit integers, in order.
        wide: the layers of an 8-bit file whose weights are stored as float16, in the order of the graph.
    """

    backbone: str
    image_size: int = Field(ge=1, le=MAX_IMAGE_SIDE)
    graph: Annotated[Graph, Field(min_length=1, max_length=MAX_OPERATIONS)]
    domains: dict[DomainName, DomainEntry] = Field(min_length=1, max_length=MAX_DOMAINS)
    dense_bytes: int = Field(ge=0, le=MAX_COUNT)
    provenance: Provenance
    integers: tuple[Number, ...] = ()
    wide: tuple[str, ...] = ()

    def with_graph(self, graph: Graph, integers: tuple[int, ...], wide: tuple[str, ...] = ()) -> "Manifest":
        """Return a manifest with another graph; `model_copy` would keep what follows from this one."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return Manifest.model_construct(**fields | {"graph": graph, "integers": integers, "wide": wide})

    @cached_property
    def coded(self) -> tuple[int, ...]:
        """Return the values that are stored as 8-bit codes, in order."""
        return coded_values(self.graph, self.integers)

    @cached_property
    def shapes(self) -> list[Shape]:
        """Return the shape of every value of the graph, the image first."""
        return value_shapes(self.graph, self.image_size)

    @property
    def num_features(self) -> int:
        """Return the number of features that a classifier reads."""
        channels, height, width = self.shapes[-1]
        return channels * height * width

    @property
    def source(self) -> str | None:
        """Return the domain that the backbone was pretrained on, if the file records that it is one of its domains."""
        recipe = self.provenance.get("recipe")
        choices = recipe.get("domains") if isinstance(recipe, dict) else None
        listed = choices if isinstance(choices, list) else ()  # a file from elsewhere may record anything
        marked = [choice.get("name") for choice in listed if isinstance(choice, dict) and choice.get("source") is True]
        return next((name for name in self.domains if name in marked), None)

    @cached_property
    def convs(self) -> dict[str, ConvEntry]:
        """Return every convolution layer by its name, in the order of the graph."""
        convs: dict[str, ConvEntry] = {}
        for operation, (_, height, width) in zip(self.graph, self.shapes[1:], strict=True):
            if isinstance(operation, Conv):
                out, in_group = operation.channels
                was_out, was_in = operation.was or operation.channels
                positions = height * width + (convs[operation.layer].positions if operation.layer in convs else 0)
                convs[operation.layer] = ConvEntry(
                    out, in_group, operation.groups, operation.kernel, positions, was_out * was_in
                )
        return convs
