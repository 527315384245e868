"""Reports, against counts by hand; on a CPU they arrive at once."""

import numpy as np
import pytest
import torch

from prunus.data.loading import ImageSet
from prunus.learning.feed import DomainData
from prunus.learning.learner import Learner
from prunus.training.reporting.reports import Reporter, as_it_ended, chance_accuracy, describe_ending
from tests.makers.tiny_training import PREPROCESS, tiny_net, tiny_recipe


def _learner() -> Learner:
    learner = Learner(tiny_net(), tiny_recipe())
    switches = learner.net.switches
    assert switches is not None
    with torch.no_grad():
        switches.scores_DM.fill_(-1.0)
        switches.scores_DM[0, :6] = 1.0
        switches.scores_DM[1, 4:12] = 1.0
    learner.tally_D3[0] = torch.tensor([8.0, 3.0, 4.0])
    learner.constraints.budget_multiplier_D.copy_(torch.tensor([0.5, 0.25]))
    learner.constraints.sharing_multiplier.fill_(0.75)
    return learner


def test_a_requested_report_arrives_once() -> None:
    reporter = Reporter(_learner())
    assert reporter.arrived() is None
    reporter.request(2, 40)
    report = reporter.arrived()
    assert report is not None
    assert (report.epoch, report.step) == (2, 40)
    assert reporter.arrived() is None


def test_a_report_holds_the_learners_numbers_and_skips_domains_not_seen() -> None:
    learner = _learner()
    assert learner.net.switches is not None
    total = learner.net.switches.layout.num_switches
    report = Reporter(learner).read(1, 20, {"a": 0.9, "b": 0.8})
    assert list(report.domains) == ["a"]
    assert report.has_switches
    domain = report.domains["a"]
    assert (domain.loss, domain.train_accuracy, domain.validation_accuracy) == (2.0, 0.75, 0.9)
    assert domain.usage == pytest.approx(6 / total)
    assert domain.budget_multiplier == 0.5
    assert report.union == pytest.approx(12 / total)
    assert report.intersection == pytest.approx(2 / total)
    assert report.sharing_multiplier == 0.75


def test_a_waiting_request_is_dropped_when_the_epoch_ends() -> None:
    reporter = Reporter(_learner())
    reporter.request(0, 20)
    assert reporter.read(0, 23, {}).step == 23
    assert reporter.arrived() is None


def test_a_method_without_switches_uses_everything() -> None:
    learner = Learner(tiny_net("finetune"), tiny_recipe(method="finetune"))
    learner.tally_D3[:, 2] = 1
    report = Reporter(learner).read(0, 1, {})
    assert [domain.usage for domain in report.domains.values()] == [1.0, 1.0]
    assert (report.union, report.intersection) == (1.0, 1.0)
    assert not report.has_switches


def test_chance_is_the_most_frequent_class_or_a_random_answer() -> None:
    assert chance_accuracy(np.array([0, 1, 1, 1]), 2) == 0.75
    assert chance_accuracy(np.array([0, 1, 2]), 3) == pytest.approx(1 / 3)
    assert chance_accuracy(np.array([2, 2]), 4) == 1.0


def _images(labels: list[int]) -> ImageSet:
    return ImageSet(np.zeros((len(labels), 3, 9, 9), np.uint8), np.array(labels))


def _data() -> list[DomainData]:
    train = _images([0, 1, 1, 1, 1])
    return [
        DomainData("a", PREPROCESS, True, train, _images([0, 0, 1])),
        DomainData("b", PREPROCESS, True, train, None),
    ]


def test_an_ending_holds_all_domains_whether_or_not_the_last_epoch_saw_them() -> None:
    learner = _learner()
    assert learner.net.switches is not None
    with torch.no_grad():
        learner.net.switches.scores_DM[:, 18:] = 1.0  # all of the second convolution
    total = learner.net.switches.layout.num_switches
    ending = describe_ending(learner, _data(), 12, {"a": 0.75})
    assert ending.step == 12
    # four of the six inputs of the second convolution are computed by some domain: the others are constant
    assert ending.domains["a"].usage == pytest.approx((6 + 4 * 5) / total)
    assert ending.domains["b"].usage == pytest.approx((8 + 4 * 5) / total)
    assert ending.union == pytest.approx((12 + 4 * 5) / total)
    assert ending.intersection == pytest.approx((2 + 4 * 5) / total)
    assert (ending.domains["a"].validation_accuracy, ending.domains["a"].validation_images) == (0.75, 3)
    assert ending.domains["a"].chance == pytest.approx(2 / 3)  # of the images that were classified
    assert (ending.domains["b"].validation_accuracy, ending.domains["b"].chance) == (None, 0.8)
    assert ending.mean_accuracy() == 0.75


def test_switches_that_nothing_reads_are_off_at_the_end() -> None:
    learner = _learner()
    ending = describe_ending(learner, _data(), 12, {})
    assert ending.union == 0  # the second convolution is off
    assert ending.findings[0].startswith("no domain reads any kernel")


def test_the_last_report_of_a_run_has_the_numbers_of_its_end() -> None:
    learner = _learner()
    ending = describe_ending(learner, _data(), 12, {"a": 0.75})
    report = as_it_ended(Reporter(learner).read(1, 12, {}), ending)
    assert (report.union, report.intersection, report.domains["a"].usage) == (0, 0, 0)
    assert report.domains["a"].validation_accuracy == 0.75
    assert report.domains["a"].loss == 2.0


def test_weights_without_a_bit_are_still_used_by_methods_that_transform_them() -> None:
    learner = Learner(tiny_net("weight_transform"), tiny_recipe(method="weight_transform"))
    assert learner.net.switches is not None
    with torch.no_grad():
        learner.net.switches.scores_DM.fill_(-1.0)
    data = [DomainData(name, PREPROCESS, True, _images([0, 1]), None) for name in ("a", "b")]
    assert describe_ending(learner, data, 1, {}).findings == ()
