"""The recipe: all settings of a training run, frozen and checked once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from prunus.amounts import parse_bytes, parse_count, parse_share, write_bytes, write_count
from prunus.arrays import DType
from prunus.errors import RecipeError
from prunus.granularity import Granularity
from prunus.names import domain_name, domain_name_problem
from prunus.presets import Preset, with_preset

DEMO_PREFIX = "demo:"
PYTHON_PREFIX = "python:"  # a domain that is passed to a function
NO_FOLDERS = (DEMO_PREFIX, PYTHON_PREFIX)  # paths that do not name a place on disk
PYTHON_POLICY = "python"  # a transform that is passed to a function
MODEL_SUFFIX = ".prunus"
UNMIRRORED = frozenset({"dtd", "gtsrb", "gtsr", "omniglot", "svhn"})  # the paper does not mirror these domains

Number = TypeVar("Number", int, float)

ColourMean = Annotated[float, Field(ge=0, le=1)]
ColourSpread = Annotated[float, Field(gt=0)]
Share = Annotated[float, BeforeValidator(parse_share), Field(gt=0, le=1)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(gt=0)]
Macs = Annotated[int, BeforeValidator(parse_count), Field(gt=0)]
Strategy = Literal["shuffled", "round_robin", "alternate", "mixed", "individual"]
Crops = Literal[1, 5, 10, "paper"]
Schedule = Literal["step", "cosine", "constant"]
Policy = Literal["random_resized_crop", "color_jitter", "rand_augment", "trivial_augment", "python"]


class Settings(BaseModel):
    """A frozen, strict model: unknown keys and wrong types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class BackboneChoice(Settings):
    """The pretrained network, the source of its weights and its input size.

    The path of a model file is a name too: its kernels are then the backbone of domains that are added to it.
    """

    name: str
    weights: str = Field(
        default="pretrained", description="pretrained, random, or the path of a .safetensors, .pth, .pt or .bin file"
    )
    size: int | None = Field(default=None, ge=8, description="input pixels (default: the network's)")
    resize: int | None = Field(
        default=None, ge=8, description="shorter side before cropping (default: 9/8 of the size)"
    )
    mean: tuple[ColourMean, ColourMean, ColourMean] | None = Field(
        default=None, strict=False, description="of each colour, from 0 to 1 (default: the network's)"
    )
    std: tuple[ColourSpread, ColourSpread, ColourSpread] | None = Field(
        default=None, strict=False, description="standard deviation, likewise (default: the network's)"
    )
    original: str | None = Field(
        default=None,
        description='of a model file that grows: the weights that it was made from, "pretrained" or a path',
    )

    @property
    def is_model_file(self) -> bool:
        """Whether the name is the path of a model file."""
        return self.name.endswith(MODEL_SUFFIX)

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what earlier versions do without, unless it was set."""
        later = ("mean", "std", "original")
        return {key: value for key, value in serialize(self).items() if key not in later or value}

    @model_validator(mode="after")
    def _crop_fits(self) -> BackboneChoice:
        if self.size and self.resize and self.resize < self.size:
            raise ValueError(f"resize must be at least size ({self.size}), got {self.resize}")
        return self


class DomainChoice(Settings):
    """One image domain: where its images are and how they are prepared."""

    name: str
    path: str
    mirror: bool | None = Field(default=None, description="mirror in training (default: unless the paper does not)")
    layout: Literal["folders", "decathlon", "imagenet_to_sketch"] = "folders"
    fit: Literal["crop", "squash"] = "crop"
    resize: int | None = Field(default=None, ge=8, description="shorter side before cropping (default: the backbone's)")
    statistics: Literal["backbone", "own"] = Field(
        default="backbone", description="whose mean and standard deviation normalize the images"
    )
    finetune_accuracy: float | None = Field(default=None, ge=0, le=1, description="of a fine-tuned network, for S")
    feature_accuracy: float | None = Field(default=None, ge=0, le=1, description="of the feature extractor, for S_E")
    test_share: float = Field(default=0.2, gt=0, lt=1, description="held out of class folders without splits")
    split_seed: int = Field(default=0, ge=0, description="another one holds out other images")
    source: bool = Field(default=False, description="whether the backbone was pretrained on this domain")

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: object) -> object:
        fields: dict[str, object] = {"path": value} if isinstance(value, str) else dict(_as_mapping(value))
        if "name" not in fields and isinstance(path := fields.get("path"), str):
            fields["name"] = domain_name(Path(path.removeprefix(DEMO_PREFIX).removeprefix(PYTHON_PREFIX)).name)
        return fields

    @field_validator("name")
    @classmethod
    def _is_short_and_plain(cls, name: str) -> str:
        if problem := domain_name_problem(name):
            raise ValueError(problem)
        return name

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out the newer keys unless they were set: model files and earlier versions do without them."""
        defaults = {key: type(self).model_fields[key].default for key in ("test_share", "split_seed", "source")}
        return {key: value for key, value in serialize(self).items() if key not in defaults or value != defaults[key]}

    @property
    def mirrored(self) -> bool:
        """Whether training may mirror this domain's images."""
        return self.name.lower() not in UNMIRRORED if self.mirror is None else self.mirror


class MethodChoice(Settings, extra="allow"):
    """The method and its options, which the method itself checks."""

    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, object]:
        """Return all keys but the name."""
        return dict(self.model_extra or {})


class Sharing(Settings):
    """The loss that makes domains use the same or different kernels, and its weight."""

    loss: str | None = Field(default=None, description="(default: the method's)")
    weight: Literal["learned"] | Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="(default: learned, or the fixed weight of a penalty)"
    )
    freeze_others: bool = Field(
        default=False, description="whether only domains of the batch are moved by the loss: an ablation of the paper"
    )

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what earlier versions do without, unless it was set."""
        return {key: value for key, value in serialize(self).items() if key != "freeze_others" or value}


class Budget(Settings):
    """The limits of the finished model; a plain share limits the kernels."""

    kernels: Share | None = Field(default=None, description="share of the 2-D kernels that all domains together use")
    weights: Share | None = Field(default=None, description="share of the convolution weights, likewise")
    bytes: Bytes | None = Field(default=None, description='size of the model file, such as "1 MB"')
    macs: Macs | dict[str, Macs] | None = Field(
        default=None, description='multiply-accumulates of one image, such as "20 M"; one value, or one per domain'
    )

    @model_validator(mode="before")
    @classmethod
    def _from_share(cls, value: object) -> object:
        return {"kernels": value} if isinstance(value, (int, float, str)) else value

    @model_validator(mode="after")
    def _has_a_limit(self) -> Budget:
        if not self.limits():
            raise ValueError(f"a budget needs at least one of {', '.join(type(self).model_fields)}")
        return self

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> float | dict[str, object]:
        limits = {key: value for key, value in serialize(self).items() if value is not None}
        return limits["kernels"] if list(limits) == ["kernels"] else limits

    def limits(self) -> dict[str, float | int | dict[str, int]]:
        """Return the limits that are set, by name."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}

    @property
    def only_kernels(self) -> float | None:
        """The share of kernels if nothing else is limited."""
        return self.kernels if list(self.limits()) == ["kernels"] else None

    @property
    def can_grow(self) -> bool:
        """Whether some limit can be raised; a share of 1 is all there is."""
        return any(value != 1 or name in ("bytes", "macs") for name, value in self.limits().items())

    @property
    def label(self) -> str:
        """The limits in a form for the names of folders and rows: "0.25", or "bytes=1000000-macs=20000000"."""
        if self.only_kernels:
            return f"{self.only_kernels:.12g}"
        flat = {"macs": "_".join(f"{k}{v}" for k, v in self.macs.items())} if isinstance(self.macs, dict) else {}
        return "-".join(f"{key}={value}" for key, value in (self.limits() | flat).items())

    def __str__(self) -> str:
        """Write all limits, as in "25% of the kernels, 1 MB"."""
        macs = self.macs.items() if isinstance(self.macs, dict) else [("", self.macs)] if self.macs else []
        parts = [
            *([f"{self.kernels:.12g} of the kernels"] if self.kernels else []),
            *([f"{self.weights:.12g} of the weights"] if self.weights else []),
            *([write_bytes(self.bytes)] if self.bytes else []),
            *(f"{write_count(count)} MACs{f' in {domain}' if domain else ''}" for domain, count in macs),
        ]
        return ", ".join(parts)


class Training(Settings):
    """Length, learning rates and order of training."""

    epochs: int | None = Field(default=None, ge=1, description="(default: by the number of images)")
    batch_size: int = Field(default=32, ge=2, description="images of one step, over all processes")
    accumulate: int = Field(default=1, ge=1, description="parts of a batch that go through the network one by one")
    lr: float = Field(default=0.02, gt=0, description="SGD: heads, norms and other parameters")
    weight_lr: float | None = Field(default=0.04, gt=0, description="SGD: matrices and kernels; null: lr")
    weight_decay: float = Field(default=5e-4, ge=0, description="SGD: of matrices and kernels")
    momentum: float = Field(default=0.9, ge=0, lt=1)
    switch_lr: float | None = Field(
        default=None, gt=0, description="Adam: switches and mask coefficients (default: by the number of steps)"
    )
    dual_rate: float = Field(default=1.0, gt=0, description="step size of the budget multipliers")
    sharing_dual_rate: float | None = Field(
        default=None, gt=0, description="step size of a learned sharing.weight (default: dual_rate)"
    )
    schedule: Schedule = Field(default="cosine", description="of all learning rates: step, cosine or constant")
    warmup_epochs: float = Field(default=0.0, ge=0, description="all learning rates rise from 0 in these epochs")
    lr_drops: tuple[Share, ...] = Field(default=(0.75,), strict=False, description="step: as shares of the epochs")
    lr_drop_factor: float = Field(default=0.1, gt=0, le=1)
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    class_weights: Literal["equal", "balanced"] = Field(
        default="equal", description="balanced: classes with few images count more"
    )
    augment: tuple[Policy, ...] = Field(
        default=(),
        strict=False,
        description="torchvision policies, besides crops and mirrors, or python: the argument transform",
    )
    workers: int | None = Field(
        default=None,
        ge=0,
        description="processes that prepare images (default: by cores if images are augmented, else 0)",
    )
    strategy: Strategy = "shuffled"
    splits: Literal["train", "train+validation"] = "train"
    validation_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    keep: Literal["last", "best"] = Field(
        default="last", description="best: the epoch within the budget that classifies the validation images best"
    )
    patience: int | None = Field(default=None, ge=1, description="stop after so many epochs without a better one")
    checkpoint_seconds: float = Field(default=60.0, gt=0)
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of activations (default: bfloat16 on GPUs that support it)"
    )
    quantize: Literal["int8"] | None = Field(
        default=None, description="int8: the last fifth of training rounds kernels and activations to 8 bits"
    )
    compile: bool = Field(default=False, description="on a GPU, compile the network first, for faster steps")
    cuda_graphs: bool = Field(default=True, description="on a GPU, record a step once and replay it")
    deterministic: bool = Field(default=False, description="on a GPU, equal runs end with equal bits, at some speed")

    @model_validator(mode="after")
    def _warmup_ends(self) -> Training:
        if self.epochs and self.warmup_epochs >= self.epochs:
            raise ValueError(f"warmup_epochs must be less than epochs ({self.epochs}), got {self.warmup_epochs}")
        return self

    @model_serializer(mode="wrap")
    def _short(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what earlier versions do without, unless it was set."""
        later = ("quantize", "sharing_dual_rate")
        return {key: value for key, value in serialize(self).items() if key not in later or value}

    @property
    def num_epochs(self) -> int:
        """The length of a run, which is known once its recipe is settled."""
        return _known(self.epochs, "epochs")

    @property
    def switch_rate(self) -> float:
        """The learning rate of switches, which is known once the recipe of a run is settled."""
        return _known(self.switch_lr, "switch_lr")


class Evaluation(Settings):
    """Settings for measuring accuracy."""

    crops: Crops = 1
    batch_size: int = Field(default=256, ge=1)


class Recipe(Settings):
    """All settings of a training run."""

    preset: Preset = Field(default="auto", description="what fills in the keys that are left out: auto or paper")
    backbone: BackboneChoice
    domains: tuple[DomainChoice, ...] = Field(strict=False, min_length=1)
    benchmark: str | None = None
    root: str | None = Field(default=None, description="folder with the benchmark's data")
    method: MethodChoice | None = Field(default=None, description="(default: exact, or what sharing.loss implies)")
    budget: Budget = Field(default=Budget(kernels=0.25), description="share of the kernels, or a table of limits")
    dtype: DType = Field(default="float32", description="type of the numbers in the finished model file")
    granularity: Granularity | None = Field(default=None, description="what one switch controls (default: auto)")
    sharing: Sharing = Sharing()
    init: str | None = Field(default=None, description="folder of a run whose network this one starts from")
    teacher: str | None = Field(
        default=None, description='folder of a run whose answers this one learns too, or "finetune" to train one first'
    )
    training: Training = Training()
    evaluation: Evaluation = Evaluation()
    seed: int = Field(default=0, ge=0, lt=2**32)
    skip_bad_images: bool = False

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, value: object) -> object:
        return with_preset(value) if isinstance(value, Mapping) else value

    @field_validator("domains")
    @classmethod
    def _names_differ(cls, domains: tuple[DomainChoice, ...]) -> tuple[DomainChoice, ...]:
        names = [domain.name for domain in domains]
        twice = sorted({name for name in names if names.count(name) > 1})
        sources = [domain.name for domain in domains if domain.source]
        if len(sources) > 1:
            raise ValueError(f"a backbone has one source, but {' and '.join(map(repr, sources))} are marked as it")
        if set(twice) & set(sources):
            raise ValueError(
                f"{sources[0]!r} is the source and one of the domains; name it once, as the source or as a domain with "
                "source = true, or set another name"
            )
        if twice:
            raise ValueError(f"two domains are called {twice[0]!r}; rename one of them")
        return domains

    @property
    def source(self) -> str | None:
        """The name of the domain that the backbone was pretrained on, if it is one of the domains."""
        return next((domain.name for domain in self.domains if domain.source), None)


def _known(value: Number | None, key: str) -> Number:
    if value is None:
        raise RecipeError(f"training.{key} is chosen when a run starts; set it to use the recipe without a run")
    return value


def _as_mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError("a domain is a path or a table with name and path")
    return value
