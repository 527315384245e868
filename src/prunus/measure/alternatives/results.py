"""The result of `prunus versus`: what a user could ship instead, measured in the same way."""

import statistics

from pydantic import Field, JsonValue

from prunus.measure.result import Result, Share
from prunus.measure.speed import Timing

OURS = "ours"  # names of our rows begin with it


class VersusRow(Result):
    """One alternative, trained with one seed.

    Args:
        name: of the alternative, and of its budget if it has one.
        accuracies: by domain.
        correct: by domain, a 1 for every image that is classified correctly and a 0 for every other, in their order.
        total_bytes: of all files that serve all domains.
        macs: by domain, for one image: convolutions only.
        latencies: by domain, of one image with one thread.
    """

    name: str
    seed: int
    accuracies: dict[str, Share]
    correct: dict[str, str]
    total_bytes: int
    macs: dict[str, int]
    latencies: dict[str, Timing]

    @property
    def mean_accuracy(self) -> float:
        """Return the mean accuracy over the domains."""
        return statistics.fmean(self.accuracies.values())

    @property
    def milliseconds(self) -> float:
        """Return the mean over the domains of the median time of one image."""
        return statistics.fmean(timing.median_ms for timing in self.latencies.values())


class Versus(Result):
    """All alternatives, timed in one run on one machine.

    Args:
        titles: name of a row -> what it is, in words.
        images: domain -> number of images that accuracies were measured on.
        prunus_engine: the instruction set that Prunus used, or numpy.
        settings: the recipe without its domains, budget and seed.
        source: the domain that the backbone was pretrained on, if the recipe marks one.
        failed: name of an alternative -> why it cannot be made for this network.
    """

    backbone: str
    split: str
    titles: dict[str, str]
    images: dict[str, int]
    machine: str
    prunus_engine: str
    versions: dict[str, str]
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    source: str | None = None
    rows: tuple[VersusRow, ...]
    failed: dict[str, str] = Field(default_factory=dict)
