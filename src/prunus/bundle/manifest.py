"""What a model file says about itself, as plain data."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from prunus.images import Preprocess

DomainName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]  # it becomes a file's name


class ManifestPart(BaseModel):
    """Frozen; an unknown key means another format."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ConvEntry(ManifestPart):
    """The shape of one convolution: output channels, input channels of a group, kernel, output pixels of one image."""

    out_channels: int = Field(ge=1)
    in_channels: int = Field(ge=1)
    kernel: tuple[int, int]
    positions: int = Field(ge=1)

    @property
    def num_kernels(self) -> int:
        """Count the 2-D kernels of the dense layer."""
        return self.out_channels * self.in_channels


class DomainEntry(ManifestPart):
    """What one domain recognises and how its images are prepared."""

    classes: tuple[str, ...] = Field(min_length=1)
    preprocess: Preprocess


class Manifest(ManifestPart):
    """Everything about a model but its numbers."""

    backbone: str
    num_features: int = Field(ge=1)
    domains: dict[DomainName, DomainEntry] = Field(min_length=1)
    convs: dict[str, ConvEntry]
    dense_bytes: int = Field(ge=0)
    provenance: dict[str, Any]
