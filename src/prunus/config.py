"""The recipe: everything that decides what a training does, frozen and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

DEMO_PREFIX = "demo:"
UNMIRRORED = frozenset(
    {"dtd", "gtsrb", "gtsr", "omniglot", "svhn"}
)  # where the paper found mirroring useless or harmful

Share = Annotated[float, Field(gt=0, le=1)]
Strategy = Literal["round_robin", "alternate", "mixed", "individual"]
Crops = Literal[1, 5, 10, "paper"]
Granularity = Literal["kernel", "filter", "input_channel"]


class Settings(BaseModel):
    """Frozen and strict: an unknown key or a wrong type is an error, never a silent guess."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class BackboneChoice(Settings):
    """Which pretrained network, where its weights come from and what it sees."""

    name: str
    weights: str = Field(default="pretrained", description="pretrained, random, or the path of a safetensors file")
    size: int | None = Field(default=None, ge=8, description="input pixels; the network's own where left out")
    resize: int | None = Field(
        default=None, ge=8, description="shorter side before cropping; 9/8 of the size if left out"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _crop_fits(self) -> BackboneChoice:
        if self.size and self.resize and self.resize < self.size:
            raise ValueError(f"resize must be at least size ({self.size}), got {self.resize}")
        return self


class DomainChoice(Settings):
    """One image domain: where it lies and how its images may be changed."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    path: str
    mirror: bool | None = Field(default=None, description="mirror in training; on, except for the paper's four names")
    layout: Literal["folders", "decathlon", "imagenet_to_sketch"] = "folders"
    fit: Literal["crop", "squash"] = "crop"
    resize: int | None = Field(default=None, ge=8, description="side before cropping, where it is not the backbone's")
    statistics: Literal["backbone", "own"] = Field(
        default="backbone", description="whose mean and std normalize images"
    )
    finetune_accuracy: float | None = Field(default=None, ge=0, le=1, description="of a fine-tuned network: gives S")
    feature_accuracy: float | None = Field(default=None, ge=0, le=1, description="of the feature extractor: gives S_E")

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: object) -> object:
        fields: dict[str, object] = {"path": value} if isinstance(value, str) else dict(_as_mapping(value))
        if "name" not in fields and isinstance(path := fields.get("path"), str):
            fields["name"] = Path(path.removeprefix(DEMO_PREFIX)).name.removesuffix(".zip")
        return fields

    @property
    def mirrored(self) -> bool:
        """Whether training may mirror this domain's images."""
        return self.name.lower() not in UNMIRRORED if self.mirror is None else self.mirror


class MethodChoice(Settings, extra="allow"):
    """Which method, and its own options, which the method itself checks."""

    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, object]:
        """Give everything but the name."""
        return dict(self.model_extra or {})


class Sharing(Settings):
    """The loss that makes domains use the same kernels, or others, and how much it weighs."""

    loss: str | None = Field(default=None, description="the method's own where left out")
    weight: Literal["learned"] | Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="learned where left out, or the penalty's own"
    )


class Training(Settings):
    """How long, how fast and in which order the domains are learned; the defaults are the paper's."""

    epochs: int = Field(default=60, ge=1)
    batch_size: int = Field(default=32, ge=2)
    lr: float = Field(default=1e-3, gt=0, description="SGD: heads, norms and what else a method learns")
    weight_lr: float | None = Field(default=None, gt=0, description="SGD: matrices and kernels; lr where left out")
    momentum: float = Field(default=0.9, ge=0, lt=1)
    switch_lr: float = Field(default=1e-4, gt=0, description="Adam: switches and coefficients of masks")
    dual_rate: float = Field(default=1.0, gt=0, description="ascent per step of the budget and sharing multipliers")
    lr_drops: tuple[Share, ...] = Field(default=(0.75,), strict=False, description="shares of the epochs")
    lr_drop_factor: float = Field(default=0.1, gt=0, le=1)
    strategy: Strategy = "round_robin"
    splits: Literal["train", "train+validation"] = "train"
    validation_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    checkpoint_seconds: float = Field(default=60.0, gt=0)


class Evaluation(Settings):
    """How accuracy is measured."""

    crops: Crops = 1
    batch_size: int = Field(default=256, ge=1)


class Recipe(Settings):
    """One training, complete: the same recipe gives the same model."""

    backbone: BackboneChoice
    domains: tuple[DomainChoice, ...] = Field(strict=False, min_length=1)
    benchmark: str | None = None
    root: str | None = Field(default=None, description="where the benchmark lies")
    method: MethodChoice | None = Field(default=None, description="the one that sharing.loss names where left out")
    budget: Share = 0.25
    granularity: Granularity | None = Field(default=None, description="what a switch switches; kernel where left out")
    sharing: Sharing = Sharing()
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    seed: int = Field(default=0, ge=0, lt=2**32)
    skip_bad_images: bool = False

    @field_validator("domains")
    @classmethod
    def _names_differ(cls, domains: tuple[DomainChoice, ...]) -> tuple[DomainChoice, ...]:
        names = [domain.name for domain in domains]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two domains are called {twice[0]!r}; give one of them another name")
        return domains


def _as_mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError("a domain is a path or a table with name and path")
    return value
