"""What the page knows of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from prunus.measure.cost import CostReport
from prunus.measure.evaluation import Evaluation
from prunus.measure.speed import Benchmark
from prunus.run_folder import EpochReport


@dataclass(frozen=True)
class Contents:
    """What a run's network or model file contains.

    Args:
        costs: kernels used in each layer; None if it is unknown.
        sharing: for two domains, kernels that both use / kernels that either uses; empty without switches.
        bytes_by_part: size of each part of the model file; empty without one.
        versions: of the packages that made the model file.
    """

    costs: CostReport | None = None
    sharing: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bytes_by_part: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportedRun:
    """A run as the page shows it.

    Args:
        recipe: key -> value as JSON, without the folders of this machine.
        versions: of the packages that trained it; empty if the run does not record them.
        notes: what could not be read, and what to do about it.
    """

    name: str
    results: Evaluation
    recipe: Mapping[str, str] = field(default_factory=dict)
    epochs: tuple[EpochReport, ...] = ()
    bench: Benchmark | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    contents: Contents = field(default_factory=Contents)
    notes: tuple[str, ...] = ()
