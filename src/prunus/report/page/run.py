"""What the page knows of a run, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FEATURE, FINETUNE = "feature", "finetune"  # what S_E and S compare with


class Part(BaseModel):
    """Frozen; keys that the page does not show may be there."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class DomainResult(Part):
    """How one domain did."""

    accuracy: Share
    images: int | None = None
    usage: Share
    macs_ratio: Share


class ScoreResult(Part):
    """S and its relatives, where the recipe knows what they compare with."""

    s: Number | None
    s_o: Number | None
    s_p: Number | None
    s_e: Number | None


class Guess(Part):
    """One answer of the example."""

    label: str
    probability: Share


class Example(Part):
    """One image that the demonstration classified."""

    domain: str
    file: str
    truth: str
    predictions: tuple[Guess, ...] = Field(min_length=1)


class Results(Part):
    """A measured run, as `prunus evaluate --json` writes it."""

    method: str
    options: dict[str, Any] = {}
    backbone: str
    budget: Share | None
    sharing: str | None = None
    seed: int = 0
    split: str
    steps: tuple[int, int]
    domains: dict[str, DomainResult] = Field(min_length=1)
    mean_accuracy: Share
    union: Share
    intersection: Share
    params_ratio: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    macs_ratio: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    dense_macs: int
    model_bytes: int | None
    stored_bytes: int
    dense_bytes: int
    scores: ScoreResult | None = None
    baselines: dict[str, Results] = {}
    example: Example | None = None

    @property
    def largest_usage(self) -> float:
        """Give the usage of the domain that uses most."""
        return max(each.usage for each in self.domains.values())


class Progress(Part):
    """How one domain stood at the end of an epoch."""

    train_accuracy: Share
    validation_accuracy: Share | None
    usage: Share


class Epoch(Part):
    """A line of a run's log."""

    epoch: int
    domains: dict[str, Progress]
    union: Share
    seconds: Share = 0.0


class Latency(Part):
    """How long one image takes."""

    median_ms: Share
    p95_ms: Share


class Speed(Part):
    """One engine with one number of threads; dense networks have no domain."""

    engine: str
    threads: int
    domain: str | None
    latency: Latency
    images_per_second: Share


class Bench(Part):
    """What `prunus bench --json` measured."""

    model: str
    machine: str
    prunus_engine: str | None = None  # older files do not say
    batch: int
    versions: dict[str, str]
    speeds: tuple[Speed, ...] = Field(min_length=1)


class Origin(Part):
    """What a run was trained with: name of a package -> its version."""

    versions: dict[str, str]


@dataclass(frozen=True)
class LayerUsage:
    """The share of one layer's kernels that each domain uses, and that any domain uses."""

    name: str
    num_kernels: int
    usage: Mapping[str, float]
    union: float


@dataclass(frozen=True)
class Contents:
    """What a run's network or model file holds.

    Args:
        sharing: of two domains, kernels that both use / kernels that either uses; empty where nothing is switched.
        bytes_by_part: where the bytes of a model file go.
    """

    layers: tuple[LayerUsage, ...] = ()
    sharing: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bytes_by_part: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportedRun:
    """A run as the page shows it.

    Args:
        recipe: key -> value as text, without the places of files.
        versions: of the packages that trained it; empty where the run does not say.
        notes: what of the run could not be shown, and what to do about it.
    """

    name: str
    results: Results
    recipe: Mapping[str, str] = field(default_factory=dict)
    epochs: tuple[Epoch, ...] = ()
    bench: Bench | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = field(default_factory=Contents)
    notes: tuple[str, ...] = ()
