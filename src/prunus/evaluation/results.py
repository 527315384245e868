"""Fill in the results of an evaluation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from prunus.config import Recipe
from prunus.errors import DataError
from prunus.evaluation.classifying import Answers, Unmeasured
from prunus.evaluation.limits import limits_used
from prunus.evaluation.subject import Subject
from prunus.evaluation.traits import method_traits
from prunus.measure.accuracy import classify
from prunus.measure.cost import CostReport
from prunus.measure.evaluation import DomainResult, Evaluation
from prunus.measure.score import Scores, decathlon_score, efficiency_scores
from prunus.uncertainty import Interval, accuracy_interval, mean_interval


def evaluation_of(subject: Subject, split: str, answers: Iterable[Answers | Unmeasured]) -> Evaluation:
    """Combine the answers of a subject with its costs; at least one domain must have been measured."""
    domains: dict[str, DomainResult] = {}
    unmeasured: dict[str, str] = {}
    for answer in answers:
        if isinstance(answer, Unmeasured):
            unmeasured[answer.domain] = answer.reason
        else:
            domains[answer.domain] = _domain_result(answer, subject)
    if not domains:
        raise DataError(_nothing_measured(unmeasured))
    return _evaluation(subject, split, domains, unmeasured)


def frozen_baseline(frozen: Subject, results: Evaluation) -> Evaluation | None:
    """Return the results of a run's frozen backbone, which were measured with the run; None if some are unknown.

    Args:
        frozen: the frozen backbone as a model of its own.
    """
    if len(results.frozen_accuracies) < len(results.domains):
        return None
    domains = {
        name: DomainResult(
            accuracy=results.frozen_accuracies[name],
            accuracy_interval=_interval(results.frozen_accuracies[name], domain.images),
            frozen_accuracy=None,
            images=domain.images,
            skipped=domain.skipped,
            crops=domain.crops,
            usage=frozen.costs.usage(name),
            macs=frozen.costs.macs(name),
            macs_ratio=frozen.costs.macs_ratio(name),
        )
        for name, domain in results.domains.items()
    }
    return _evaluation(frozen, results.split, domains, results.unmeasured)


def _evaluation(
    subject: Subject, split: str, domains: dict[str, DomainResult], unmeasured: dict[str, str]
) -> Evaluation:
    recipe = subject.recipe
    costs = subject.costs
    method = method_traits(recipe)
    accuracies = {name: domain.accuracy for name, domain in domains.items()}
    intervals = {name: domain.accuracy_interval for name, domain in domains.items() if domain.accuracy_interval}
    limits = limits_used(recipe, costs, subject.model_bytes)
    is_source_apart = recipe.source is None  # served by the unpruned backbone, which is kept beside the domains
    return Evaluation(
        method=method.name,
        options=method.options,
        backbone=recipe.backbone.name,
        budget=recipe.budget.kernels if method.has_budget else None,
        sharing=method.sharing,
        seed=recipe.seed,
        split=split,
        steps=subject.steps,
        domains=domains,
        mean_accuracy=sum(accuracies.values()) / len(accuracies),
        mean_accuracy_interval=mean_interval(accuracies, intervals) if len(intervals) == len(domains) else None,
        union=costs.union(),
        intersection=costs.intersection(),
        sparsity=costs.sparsity(),
        params_ratio=costs.params_ratio(),
        params_ratio_with_source=costs.params_ratio(with_source=is_source_apart),
        macs_ratio=costs.mean_macs_ratio(),
        macs_ratio_with_source=costs.mean_macs_ratio(with_source=is_source_apart),
        dense_macs=costs.dense_macs(),
        model_bytes=subject.model_bytes,
        stored_bytes=costs.stored_bytes(),
        dense_bytes=subject.dense_bytes,
        scores=_scores(recipe, list(accuracies.values()), costs),
        budget_kept=None if limits is None else all(limit.kept for limit in limits),
        limits=limits or (),
        unmeasured=unmeasured,
        source=recipe.source,
    )


def _nothing_measured(reasons: Mapping[str, str]) -> str:
    first, *others = reasons.values()
    return f"{first} (the same goes for {', '.join(list(reasons)[1:])})" if others else first


def _domain_result(answers: Answers, subject: Subject) -> DomainResult:
    costs = subject.costs
    return DomainResult(
        accuracy=answers.accuracy(),
        accuracy_interval=_interval(answers.accuracy(), len(answers.images)),
        frozen_accuracy=_frozen_accuracy(answers, subject),
        images=len(answers.images),
        skipped=len(answers.images.skipped),
        crops=answers.crops,
        usage=costs.usage(answers.domain),
        macs=costs.macs(answers.domain),
        macs_ratio=costs.macs_ratio(answers.domain),
        by_class=answers.by_class,
    )


def _interval(accuracy: float, images: int | None) -> Interval | None:
    return accuracy_interval(accuracy, images) if images else None


def _frozen_accuracy(answers: Answers, subject: Subject) -> float | None:
    """Measure the frozen backbone on the same crops of the same images."""
    if answers.domain not in subject.frozen:
        return None
    preprocess = subject.domains[answers.domain].preprocess
    batch_size = subject.recipe.evaluation.batch_size
    found = classify(subject.frozen[answers.domain], answers.images, preprocess, answers.crops, batch_size)
    return replace(answers, labels=found.labels).accuracy()


def _scores(recipe: Recipe, accuracies: Sequence[float], costs: CostReport) -> Scores | None:
    """Compute the scores if the recipe names the accuracies that they compare with, and every domain was measured."""
    finetuned = [choice.finetune_accuracy for choice in recipe.domains if choice.finetune_accuracy is not None]
    feature = [choice.feature_accuracy for choice in recipe.domains if choice.feature_accuracy is not None]
    if min(len(finetuned), len(accuracies)) < len(recipe.domains):
        return None
    feature_score = decathlon_score(feature, finetuned) if len(feature) == len(finetuned) else None
    score = decathlon_score(accuracies, finetuned)
    return efficiency_scores(score, costs.mean_macs_ratio(), costs.params_ratio(), feature_score)
