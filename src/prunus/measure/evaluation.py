"""The result of `prunus evaluate`: accuracy, usage and cost of every domain, and the scores."""

from __future__ import annotations

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, model_serializer

from prunus.measure.budget import TOGETHER, KernelShare, LimitUse
from prunus.measure.by_class.confusion import ByClass
from prunus.measure.result import Amount, Result, Share
from prunus.measure.score import Scores
from prunus.runtime.predictor import Prediction
from prunus.uncertainty import Interval


class DomainResult(Result):
    """The accuracy of one domain, and its share of the backbone's kernels and MACs.

    Args:
        accuracy_interval: lowest and highest plausible accuracy: 95 % by Wilson's formula, from the number of images;
            None in files of earlier versions.
        frozen_accuracy: of a linear classifier on the frozen backbone; None for model files and earlier runs.
        by_class: every class, which of them are confused, and the surest mistakes; None in files of earlier versions.
    """

    accuracy: Share
    accuracy_interval: Interval | None = None
    frozen_accuracy: Share | None = None
    images: int | None = None
    skipped: int = 0
    crops: int = 1
    usage: Share
    macs: int | None = None
    macs_ratio: Share
    by_class: ByClass | None = None

    @model_serializer(mode="wrap")
    def _omit_what_nobody_measured(self, serialize: SerializerFunctionWrapHandler) -> dict[str, object]:
        content: dict[str, object] = serialize(self)
        for key in ("accuracy_interval", "by_class"):
            if content[key] is None:
                del content[key]
        is_known = "frozen_accuracy" in self.model_fields_set
        return {key: value for key, value in content.items() if is_known or key != "frozen_accuracy"}


class Example(Result):
    """One test image that the demo classified."""

    domain: str
    file: str
    truth: str
    predictions: tuple[Prediction, ...] = Field(min_length=1)


class Evaluation(Result):
    """A measured run or model file; fields with a default are missing in files of earlier versions.

    Args:
        budget: share of the kernels; None where the method has no such limit.
        steps: steps done, and steps of the whole training run.
        mean_accuracy_interval: 95 %, from the numbers of images of all domains; None in files of earlier versions.
        sparsity: mean over layers of the share of kernels that no domain uses.
        macs_ratio: mean over domains, relative to the dense backbone.
        model_bytes: size of the model file, of a run at the recipe's dtype; None where no file can hold the network.
        stored_bytes: size of everything the domains need, counted by the same rule for all methods.
        budget_kept: whether every limit is kept; None where the method has no budget.
        limits: every limit and what is used of it; methods other than `exact` limit the kernels of each domain and,
            with the union loss, of all domains together.
        unmeasured: domains without labelled images in this split -> why they were skipped; no mean contains them.
        baselines: other models that were measured with the run for comparison.
        seconds: training time, in the results that a run folder holds.
        recipe: the recipe as it was trained, in the results that a run folder holds.
        source: name of the domain that the backbone was pretrained on; None if it is not one of the domains.
        params_ratio_with_source: with the unpruned backbone beside the domains, which serves the source; the same as
            `params_ratio` if the source is one of the domains.
        macs_ratio_with_source: mean over domains and the unpruned source; the same as `macs_ratio` likewise.
    """

    added = (
        "mean_accuracy_interval",
        "budget_kept",
        "limits",
        "unmeasured",
        "baselines",
        "example",
        "seconds",
        "recipe",
        "source",
    )

    method: str
    options: dict[str, JsonValue] = Field(default_factory=dict)
    backbone: str
    budget: Share | None
    sharing: str | None = None
    seed: int = 0
    split: str
    steps: tuple[int, int]
    domains: dict[str, DomainResult] = Field(min_length=1)
    mean_accuracy: Share
    mean_accuracy_interval: Interval | None = None
    union: Share
    intersection: Share
    sparsity: Share | None = None
    params_ratio: Share
    params_ratio_with_source: Share | None = None
    macs_ratio: Share
    macs_ratio_with_source: Share | None = None
    dense_macs: int
    model_bytes: int | None
    stored_bytes: int
    dense_bytes: int
    scores: Scores | None = None
    budget_kept: bool | None = None
    limits: tuple[LimitUse, ...] = ()
    unmeasured: dict[str, str] = Field(default_factory=dict)
    baselines: dict[str, Evaluation] = Field(default_factory=dict)
    example: Example | None = None
    seconds: Amount | None = None
    recipe: dict[str, JsonValue] | None = None
    source: str | None = None

    @property
    def accuracies(self) -> dict[str, float]:
        """Return the accuracy of every domain."""
        return {name: domain.accuracy for name, domain in self.domains.items()}

    @property
    def accuracy_intervals(self) -> dict[str, Interval]:
        """Return the 95 % interval of every domain's accuracy where it is known."""
        intervals = {name: domain.accuracy_interval for name, domain in self.domains.items()}
        return {name: interval for name, interval in intervals.items() if interval is not None}

    @property
    def images(self) -> dict[str, int]:
        """Return the number of images of every domain where it is known."""
        return {name: domain.images for name, domain in self.domains.items() if domain.images is not None}

    @property
    def frozen_accuracies(self) -> dict[str, float]:
        """Return the accuracy of frozen features for every domain where it is known."""
        accuracies = {name: domain.frozen_accuracy for name, domain in self.domains.items()}
        return {name: accuracy for name, accuracy in accuracies.items() if accuracy is not None}

    def without_pictures(self) -> Evaluation:
        """Return the same results without the pictures of mistakes, which are long in JSON."""
        domains = {
            name: domain.model_copy(update={"by_class": domain.by_class.without_pictures()})
            if domain.by_class
            else domain
            for name, domain in self.domains.items()
        }
        return self.model_copy(update={"domains": domains})

    @property
    def largest_usage(self) -> float:
        """Return the usage of the domain that uses most."""
        return max(domain.usage for domain in self.domains.values())

    @property
    def over_budget(self) -> list[str]:
        """List the domains that exceed the budget, and "all domains together" if they do."""
        if self.limits or self.budget is None:
            return list(dict.fromkeys(limit.domain or TOGETHER for limit in self.limits if not limit.kept))
        usages = {name: domain.usage for name, domain in self.domains.items()}
        return list(KernelShare.of(self.budget, self.sharing).exceeded(usages, self.union))


class StoredResult(Result):
    """What was measured earlier, on another machine perhaps.

    Args:
        commands: what made it.
    """

    title: str
    commands: tuple[str, ...]
    machine: str
    results: Evaluation


class Demonstration(Evaluation):
    """The result of `prunus demo`.

    Args:
        stored: other methods on the same domains, measured earlier.
        report: path of the page; None where the packages that write it are not installed.
    """

    model_bytes: int
    example: Example
    stored: tuple[StoredResult, ...] = ()
    report: str | None
