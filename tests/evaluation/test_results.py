"""Every number of an evaluation is the one its name says, computed here by hand."""

from dataclasses import replace

import numpy as np
import pytest

from prunus.arrays import Bytes, Floats
from prunus.bundle.manifest import DomainEntry
from prunus.data.loading import ImageSet
from prunus.errors import DataError
from prunus.evaluation.classifying import Answers, Unmeasured
from prunus.evaluation.results import evaluation_of
from prunus.evaluation.subject import Subject
from prunus.images import Preprocess
from prunus.measure.by_class.confusion import count_classes
from prunus.measure.cost import CostReport, DomainCost, LayerCost
from prunus.probabilities import Classifier
from prunus.recipes import parse_recipe

# two layers of unequal size, so that no two of the numbers are equal by chance
# name, kernels, kernel area, positions, used by each domain, union, intersection, weights read
LAYERS = (
    LayerCost("first", 10, 9, 16, (4, 5), 7, 2, 63),
    LayerCost("second", 30, 1, 4, (6, 3), 8, 1, 8),
)
COSTS = CostReport(("a", "b"), LAYERS, (DomainCost(40, 320), DomainCost(40, 640, 48)), shared_bits=64, side_bits=96)
DENSE_MACS = 10 * 9 * 16 + 30 * 4
MACS = {"a": 4 * 9 * 16 + 6 * 4, "b": 5 * 9 * 16 + 3 * 4 + 48}
DENSE_BITS = 32 * (10 * 9 + 30)


def _no_classifier(domain: str) -> Classifier:
    raise AssertionError(f"{domain} is not classified here")


def _subject(**changes: object) -> Subject:
    domains = [{"name": "a", "path": "a"}, {"name": "b", "path": "b"}]
    content: dict[str, object] = {
        "preset": "paper",
        "backbone": "wrn14_2",
        "domains": domains,
        "method": "ba2",
        "budget": 0.3,
        "seed": 7,
    }
    recipe = parse_recipe(content | changes)
    return Subject(recipe, {}, _no_classifier, COSTS, (3, 8), 5000, 1234)


def _answers(domain: str, correct: int, wrong: int, skipped: int, crops: int) -> Answers:
    labels = np.zeros(correct + wrong, np.int64)
    predicted = np.array([0] * correct + [1] * wrong)
    images = np.zeros((len(labels), 3, 1, 1), np.uint8)
    return Answers(domain, predicted, ImageSet(images, labels, ("bad.png",) * skipped), crops)


ANSWERS = (_answers("a", 3, 1, skipped=2, crops=5), _answers("b", 1, 1, skipped=0, crops=10))


def test_costs_of_all_domains_are_in_the_fields_of_their_names() -> None:
    results = evaluation_of(_subject(), "validation", ANSWERS)
    assert results.union == 15 / 40
    assert results.intersection == 3 / 40
    assert results.sparsity == pytest.approx((3 / 10 + 22 / 30) / 2)
    assert results.macs_ratio == pytest.approx((MACS["a"] + MACS["b"]) / 2 / DENSE_MACS)
    assert results.macs_ratio_with_source == pytest.approx(((MACS["a"] + MACS["b"]) / DENSE_MACS + 1) / 3)
    assert results.params_ratio == pytest.approx((32 * (63 + 8) + 64 + 80) / DENSE_BITS)
    assert results.params_ratio_with_source == pytest.approx((DENSE_BITS + 64 + 80) / DENSE_BITS)
    assert results.dense_macs == DENSE_MACS
    assert results.stored_bytes == (32 * (63 + 8) + 64 + 80 + 96 + 320 + 640) // 8
    assert (results.dense_bytes, results.model_bytes) == (5000, 1234)


def test_every_domain_has_its_own_accuracy_and_costs() -> None:
    results = evaluation_of(_subject(), "test", ANSWERS)
    first, second = results.domains["a"], results.domains["b"]
    assert (first.accuracy, first.images, first.skipped, first.crops) == (0.75, 4, 2, 5)
    assert (second.accuracy, second.images, second.skipped, second.crops) == (0.5, 2, 0, 10)
    assert (first.usage, second.usage) == (10 / 40, 8 / 40)
    assert (first.macs, second.macs) == (MACS["a"], MACS["b"])
    assert first.macs_ratio == pytest.approx(MACS["a"] / DENSE_MACS)
    assert results.mean_accuracy == 0.625
    assert first.accuracy_interval == pytest.approx((0.3006, 0.9544), abs=1e-4)  # 3 of 4
    assert results.mean_accuracy_interval is not None
    low, high = results.mean_accuracy_interval
    assert 0.2 < low < 0.625 < high < 0.95


def test_what_was_measured_is_named() -> None:
    results = evaluation_of(_subject(), "validation", ANSWERS)
    assert (results.method, results.backbone, results.budget, results.sharing) == ("ba2", "wrn14_2", 0.3, None)
    assert (results.seed, results.split, results.steps) == (7, "validation", (3, 8))
    assert results.options == {"granularity": "auto", "budget_per": "network"}
    assert evaluation_of(_subject(method="union"), "test", ANSWERS).sharing == "union"
    assert evaluation_of(_subject(method="bn"), "test", ANSWERS).budget is None


def test_limits_are_those_of_the_method_and_all_of_them_must_be_kept() -> None:
    within, over = (evaluation_of(_subject(budget=share), "test", ANSWERS) for share in (0.25, 0.24))
    assert [(limit.domain, limit.used, limit.limit) for limit in within.limits] == [("a", 10, 10), ("b", 8, 10)]
    assert within.budget_kept is True
    assert (over.budget_kept, over.over_budget) == (False, ["a"])
    union = evaluation_of(_subject(method="union", budget=0.25), "test", ANSWERS)  # of 15 kernels of 40
    assert (union.budget_kept, union.over_budget) == (False, ["all domains together"])
    exact = evaluation_of(_subject(method="exact", budget={"bytes": 1234}), "test", ANSWERS)
    assert (exact.budget, exact.budget_kept) == (None, True)
    assert evaluation_of(_subject(method="exact", budget={"bytes": 1233}), "test", ANSWERS).budget_kept is False
    none = evaluation_of(_subject(method="bn"), "test", ANSWERS)
    assert (none.budget_kept, none.limits) == (None, ())
    assert {"budget_kept", "limits"} <= none.model_dump().keys()


def _domains(**references: float) -> list[dict[str, object]]:
    return [{"name": name, "path": name, **references} for name in ("a", "b")]


def test_scores_need_the_accuracies_that_they_compare_with() -> None:
    assert evaluation_of(_subject(), "test", ANSWERS).scores is None
    half = [*_domains(finetune_accuracy=0.5)[:1], *_domains()[1:]]
    assert evaluation_of(_subject(domains=half), "test", ANSWERS).scores is None
    scores = evaluation_of(_subject(domains=_domains(finetune_accuracy=0.5)), "test", ANSWERS).scores
    assert scores is not None
    assert scores.s == pytest.approx(1000 * (0.75**2 + 0.5**2))  # twice the fine-tuned error is 1
    assert scores.s_e is None


def test_scores_divide_by_the_mean_macs_and_by_the_params_without_a_source_domain() -> None:
    references = _domains(finetune_accuracy=0.5, feature_accuracy=0.25)
    results = evaluation_of(_subject(domains=references), "test", ANSWERS)
    assert results.scores is not None
    score = 1000 * (0.75**2 + 0.5**2)
    assert results.scores.s_o == pytest.approx(score / results.macs_ratio)
    assert results.scores.s_p == pytest.approx(score / results.params_ratio)
    feature = 2 * 1000 * 0.25**2
    expected = score / results.macs_ratio * score / results.params_ratio / feature**2
    assert results.scores.s_e == pytest.approx(expected)


def test_a_domain_that_was_not_measured_is_named_and_is_part_of_no_mean_or_score() -> None:
    subject = _subject(domains=_domains(finetune_accuracy=0.5))
    results = evaluation_of(subject, "test", [ANSWERS[0], Unmeasured("b", "it has no test images")])
    assert results.unmeasured == {"b": "it has no test images"}
    assert list(results.domains) == ["a"]
    assert results.mean_accuracy == 0.75
    assert results.scores is None  # they add up points of all domains
    assert results.union == 15 / 40  # the model serves all domains
    assert evaluation_of(subject, "test", ANSWERS).unmeasured == {}


def test_without_any_measured_domain_there_is_no_result() -> None:
    unmeasured = [Unmeasured("a", "domain 'a' has no test images"), Unmeasured("b", "nor has 'b'")]
    with pytest.raises(DataError, match=r"^domain 'a' has no test images \(the same goes for b\)$"):
        evaluation_of(_subject(), "test", unmeasured)


def test_frozen_features_are_measured_on_the_same_images_and_crops_where_they_are_known() -> None:
    seen = []

    def third_is_right(stored: Bytes, _preprocess: Preprocess, crops: int) -> Floats:
        seen.append((len(stored), crops))
        return np.eye(2, dtype=np.float32)[[1, 1, 0, 1][: len(stored)]]

    preprocess = Preprocess(size=1, resize=1, mean=(0, 0, 0), std=(1, 1, 1))
    entry = DomainEntry(classes=("x", "y"), preprocess=preprocess)
    subject = replace(_subject(), domains={"a": entry}, frozen={"a": third_is_right})
    results = evaluation_of(subject, "test", ANSWERS)
    assert seen == [(4, 5)]
    assert results.domains["a"].frozen_accuracy == 0.25
    assert results.domains["a"].accuracy == 0.75
    assert results.domains["b"].frozen_accuracy is None
    assert results.frozen_accuracies == {"a": 0.25}


def test_results_by_class_are_kept_where_they_are_known() -> None:
    by_class = count_classes(("x", "y"), ANSWERS[0].images.labels, ANSWERS[0].labels)
    results = evaluation_of(_subject(), "test", (replace(ANSWERS[0], by_class=by_class), ANSWERS[1]))
    assert results.domains["a"].by_class == by_class
    dumped = results.model_dump(mode="json")["domains"]
    assert dumped["a"]["by_class"]["classes"][0] == {"name": "x", "images": 4, "correct": 3}
    assert dumped["a"]["by_class"]["confusions"] == [{"truth": "x", "predicted": "y", "images": 1}]
    assert "by_class" not in dumped["b"]


def test_with_the_source_among_the_domains_nothing_else_is_counted() -> None:
    domains = [{"name": "a", "path": "a", "source": True}, {"name": "b", "path": "b"}]
    results = evaluation_of(_subject(domains=domains), "test", ANSWERS)
    assert results.source == "a"
    assert results.params_ratio_with_source == pytest.approx((32 * (63 + 8) + 64 + 80) / DENSE_BITS)
    assert results.macs_ratio_with_source == pytest.approx((MACS["a"] + MACS["b"]) / 2 / DENSE_MACS)
    without = evaluation_of(_subject(), "test", ANSWERS)
    assert without.source is None
    assert (results.params_ratio, results.stored_bytes) == (without.params_ratio, without.stored_bytes)
