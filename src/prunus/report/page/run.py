"""What the page knows of a run, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from prunus.measure.evaluation import Evaluation
from prunus.measure.speed import Benchmark
from prunus.run_folder import EpochReport

FEATURE, FINETUNE = "feature", "finetune"  # what S_E and S compare with


class Part(BaseModel):
    """Frozen; keys that the page does not show may be there."""

    model_config = ConfigDict(frozen=True, extra="ignore")


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
    results: Evaluation
    recipe: Mapping[str, str] = field(default_factory=dict)
    epochs: tuple[EpochReport, ...] = ()
    bench: Benchmark | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = field(default_factory=Contents)
    notes: tuple[str, ...] = ()
