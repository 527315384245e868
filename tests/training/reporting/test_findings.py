"""What a run says at its end: a sentence for every problem, and none for a good run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typing_extensions import override

from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import Usage
from prunus.config import Training
from prunus.errors import BudgetWarning
from prunus.measure.budget import KernelShare, LimitUse
from prunus.measure.cost import CostReport, DomainCost, LayerCost
from prunus.recipes import parse_recipe
from prunus.run_folder import DomainEnding, DomainProgress, Ending, EpochReport, RunFolder
from prunus.training.observers import Observer
from prunus.training.reporting.findings import (
    ScheduleWatch,
    falls_short,
    find_problems,
    inaccurate,
    larger_than_dense,
    limit_of,
    over_budget,
    over_limits,
    switched_off,
)
from prunus.training.run import start_run
from prunus.verbs.prune import find_problems as find_problems_of_file
from prunus.verbs.prune import prune
from tests.conftest import write_domain

DOMAINS = ["birds", "flowers"]
GOOD = {"stem": [0.5, 0.2], "conv": [0.3, 0.01]}
GOOD_DOMAIN = DomainEnding(usage=0.2, chance=0.1, validation_images=100, validation_accuracy=0.8, frozen_accuracy=0.7)
LIMIT = KernelShare(0.25, of_union=True)
OVER = ["the run is over its budget; do this"]


def _costs(used: Sequence[int], union: int, total: int = 10_000) -> CostReport:
    """Return the costs of one layer, of which every domain uses some kernels."""
    layer = LayerCost("conv", total, 9, 1, tuple(used), union, 0, 0)
    return CostReport(tuple(DOMAINS[: len(used)]), (layer,), ())


def test_nothing_is_said_about_a_good_run() -> None:
    ending = Ending(10, dict.fromkeys(DOMAINS, GOOD_DOMAIN), union=0.25, has_switches=True)
    assert find_problems(ending, GOOD) == ()
    assert find_problems(ending, {}) == ()  # a method without switches
    empty = {"last": [0.0, 0.0]}
    assert "set a larger budget or" in find_problems(ending, GOOD | empty)[0]
    assert "budget" not in find_problems(ending, GOOD | empty, can_grow=False)[0]
    unknown = replace(GOOD_DOMAIN, validation_accuracy=None, frozen_accuracy=None, validation_images=0)
    assert find_problems(replace(ending, domains=dict.fromkeys(DOMAINS, unknown)), GOOD) == ()


def test_every_problem_of_a_run_is_said() -> None:
    bad = DomainEnding(usage=0.4, chance=0.1, validation_images=100, validation_accuracy=0.1, frozen_accuracy=0.7)
    ending = Ending(10, {"birds": GOOD_DOMAIN, "flowers": bad}, union=0.5, has_switches=True)
    sentences = find_problems(ending, GOOD | {"last": [0.0, 0.0]}, OVER)
    assert [sentence.split(";")[0] for sentence in sentences] == [
        "layer last has no kernel that any domain reads",
        "validation accuracy is no better than chance in domain flowers (10.0% where chance is 10.0%)",
        "the run is over its budget",
    ]
    assert all("; " in sentence for sentence in sentences)  # each has a remedy


@pytest.mark.parametrize(
    ("layers", "problems"),
    [
        ({"a": [0, 0], "b": [0, 0]}, ["no domain reads any kernel, so"]),
        ({"a": [0, 0.1], "b": [0, 0.1]}, ["no kernel is read in domain birds;"]),
        (
            {"a": [0, 0], "b": [0, 0], "c": [0.1, 0.1]},
            ["2 of 3 layers, the first of them a, have no kernel that any domain reads;"],
        ),
        ({"a": [0.1, 0], "b": [0.1, 1]}, ["whole layers have no kernel that is read in domain flowers (a);"]),
        ({"a": [0, 1], "b": [1, 0], "c": [1, 0], "d": [1, 1]}, ["in domains birds (a), flowers (2 layers, the first"]),
        ({"a": [0, 0], "b": [1, 0], "c": [1, 1]}, ["layer a has no kernel that any", "in domain flowers (b);"]),
        ({"a": [0, 0], "b": [0, 1]}, ["no kernel is read in domain birds;", "layer a has no kernel that any"]),
        ({"a": [1e-9, 1], "b": [1, 1]}, []),
    ],
)
def test_what_is_switched_off_whole_is_named(layers: dict[str, Sequence[float]], problems: list[str]) -> None:
    sentences = switched_off(DOMAINS, layers, can_grow=True)
    assert len(sentences) == len(problems)
    for sentence, problem in zip(sentences, problems, strict=True):
        assert problem in sentence
        assert sentence.endswith("; set a larger budget or a smaller training.switch_lr")
    without_room = switched_off(DOMAINS, layers, can_grow=False)
    assert len(without_room) == len(problems)
    assert all("budget" not in sentence for sentence in without_room)


@pytest.mark.parametrize(
    ("accuracy", "images", "is_chance"),
    [
        (0.10, 100, True),
        (0.02, 100, True),  # worse than chance
        (0.15, 100, True),  # one in 20 guessers is as good: standard deviation 3 %
        (0.20, 100, False),
        (0.15, 1000, False),
        (0.10, 5, True),
        (1.00, 5, False),
    ],
)
def test_an_accuracy_at_chance_is_told_from_a_low_one_by_the_number_of_images(
    accuracy: float, images: int, is_chance: bool
) -> None:
    sentences = inaccurate({"birds": DomainEnding(0.2, 0.1, images, accuracy)})
    assert bool(sentences) == is_chance


def test_few_images_of_two_classes_prove_nothing_against_a_good_accuracy() -> None:
    assert inaccurate({"birds": DomainEnding(1.0, 0.5, 4, 1.0)}) == []
    assert inaccurate({"birds": DomainEnding(1.0, 0.5, 4, 0.75)}) == []
    assert inaccurate({"birds": DomainEnding(1.0, 0.5, 4, 0.5)}) == []
    assert len(inaccurate({"birds": DomainEnding(1.0, 0.5, 8, 0.5)})) == 1
    assert inaccurate({"birds": DomainEnding(1.0, 0.5, 8, 0.75)}) == []
    assert inaccurate({"birds": DomainEnding(1.0, 1.0, 4, 1.0)}) == []  # one class: nothing to learn


def test_an_accuracy_clearly_below_frozen_features_is_named_and_a_little_below_is_not() -> None:
    domains = {
        "clearly": DomainEnding(0.2, 0.1, 400, 0.60, 0.75),
        "a little": DomainEnding(0.2, 0.1, 400, 0.73, 0.75),
        "few images": DomainEnding(0.2, 0.1, 20, 0.60, 0.75),
        "above": DomainEnding(0.2, 0.1, 400, 0.80, 0.75),
    }
    (sentence,) = inaccurate(domains)
    assert "more accurate in domain clearly (60.0% against 75.0%); train for more epochs" in sentence


def test_a_larger_budget_is_advised_only_where_there_is_one() -> None:
    domains = {"birds": DomainEnding(0.2, 0.1, 400, 0.60, 0.75)}
    assert inaccurate(domains)[0].endswith("train for more epochs, try another training.lr, or set a larger budget")
    assert inaccurate(domains, can_grow=False)[0].endswith("train for more epochs, or try another training.lr")


def test_what_is_over_the_budget_is_named_with_its_usage() -> None:
    costs = _costs((2500, 3120), 3800)
    (sentence,) = over_budget(KernelShare(0.25, of_union=False), costs)
    assert "over its budget of 25.0% of the kernels (flowers 31.2%); train for more epochs" in sentence
    (sentence,) = over_budget(LIMIT, costs)
    assert "of the kernels (flowers 31.2%, all domains together 38.0%); train for more epochs" in sentence
    (sentence,) = over_budget(LIMIT, _costs((2000,), 2501))
    assert "budget of 25.00% of the kernels (all domains together 25.01%)" in sentence
    assert over_budget(LIMIT, _costs((2500,), 2500)) == []
    assert over_budget(None, costs) == []


def test_only_methods_with_a_penalty_have_a_share_of_the_kernels_as_their_budget() -> None:
    content = {"backbone": "wrn14_2", "domains": ["a", "b"], "budget": 0.3}
    assert limit_of(parse_recipe(content | {"method": "union"})) == KernelShare(0.3, of_union=True)
    assert limit_of(parse_recipe(content | {"method": "ba2"})) == KernelShare(0.3, of_union=False)
    assert limit_of(parse_recipe(content | {"method": "piggyback"})) is None
    assert limit_of(parse_recipe(content | {"method": "exact"})) is None  # which has limits


def test_a_budget_that_is_no_share_of_all_kernels_is_named_in_its_own_unit() -> None:
    content = {"preset": "paper", "backbone": "wrn14_2", "domains": ["a"], "budget": 0.25}
    limit = limit_of(parse_recipe(content | {"method": {"name": "ba2", "budget_per": "macs"}}))
    assert limit == KernelShare(0.25, of_union=False, per="macs")
    costs = CostReport(("a",), (LayerCost("conv", 10, 9, 100, (4,), 4, 4, 36),), (DomainCost(),))
    (sentence,) = over_budget(limit, costs)
    assert "over its budget (" in sentence
    assert "MACs for domain 'a'" in sentence


def test_a_file_larger_than_the_dense_network_is_said_with_what_helps_and_a_smaller_one_is_not() -> None:
    (sentence,) = larger_than_dense(1_200_000, 1_000_000, ["do this", "do that", "do nothing"])
    assert "larger than the dense network (1.2 MB against 1 MB)" in sentence
    assert sentence.endswith("; do this, do that, or do nothing")
    assert larger_than_dense(1_200_000, 1_000_000, ["do this"])[0].endswith("; do this")
    assert larger_than_dense(1_000_000, 1_000_000, ["do this"]) == []


CONSTANT = Training(epochs=10, schedule="constant")


@pytest.mark.parametrize(
    ("points", "is_short"),
    [
        ([(0, 1.0), (20, 0.9), (40, 0.8)], True),  # would reach 50 %
        ([(0, 1.0), (20, 0.8), (40, 0.6)], False),  # would reach 0
        ([(0, 1.0), (20, 0.4), (40, 0.39)], True),  # has almost stopped
        ([(0, 1.0), (20, 1.0), (40, 1.0)], True),
        ([(0, 1.0), (20, 0.3), (40, 0.25)], False),  # is there
        ([(0, 1.0), (40, 0.7)], False),
    ],
)
def test_a_constant_rate_continues_the_decline(points: list[tuple[int, float]], is_short: bool) -> None:
    assert (falls_short(points, 100, CONSTANT, LIMIT) is not None) == is_short


def test_the_decline_slows_with_the_learning_rates() -> None:
    points = [(0, 1.0), (20, 0.8), (40, 0.6)]
    drops = Training(epochs=10, schedule="step", lr_drops=(0.4,), lr_drop_factor=0.1)
    sentence = falls_short(points, 100, drops, LIMIT)
    assert sentence is not None
    # 60 steps at a tenth of the rate are 6: 0.6 - 6 * 0.01
    assert "all domains together will still use about 54% of the kernels at its end, where 25% are allowed" in sentence
    assert 'use method = "exact"' in sentence


class _Notes(Observer):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @override
    def noted(self, message: str) -> None:
        self.notes.append(message)


def _report(step: int, usage: float, union: float) -> EpochReport:
    return EpochReport(0, step, {"a": DomainProgress(1.0, 0.5, None, usage)}, union)


@pytest.mark.parametrize(("of_union", "count"), [(True, 1), (False, 0)])
def test_a_short_schedule_is_said_once_after_a_third_of_the_steps(of_union: bool, count: int) -> None:
    notes = _Notes()
    watch = ScheduleWatch(CONSTANT, KernelShare(0.25, of_union), notes.noted)
    watch.started(0, 90)
    watch.progressed(_report(15, 0.6, 0.99))
    watch.progressed(_report(29, 0.3, 0.98))
    assert notes.notes == []
    watch.progressed(_report(30, 0.3, 0.98))
    assert len(notes.notes) == count
    for step in (45, 60, 89):
        watch.epoch_ended(_report(step, 0.3, 0.97))
    assert len(notes.notes) == count


def test_a_run_whose_first_report_is_its_last_is_judged_at_its_end_only() -> None:
    notes = _Notes()
    watch = ScheduleWatch(CONSTANT, LIMIT, notes.noted)
    watch.started(0, 4)
    watch.epoch_ended(_report(4, 1.0, 1.0))
    assert notes.notes == []


def test_limits_that_are_not_kept_are_named_with_the_remedy() -> None:
    limits = [LimitUse.of("kernels", 10, 10), LimitUse.of("bytes", 1_200_000, 1_000_000)]
    assert over_limits(limits, "do this") == ["the model is over its budget (1.2 MB of 1 MB); do this"]
    assert over_limits(limits[:1], "do this") == []


@pytest.mark.slow
def test_an_exact_run_that_ends_over_its_limits_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = parse_recipe(
        {
            "backbone": {"name": "wrn14_2", "size": 16, "resize": 18},
            "domains": [str(write_domain(tmp_path / "one", train=4, validation=2))],
            "budget": 0.5,
            "method": "exact",
            "training": {"epochs": 1, "batch_size": 4, "lr": 0.05},
        }
    )
    notes = _Notes()
    start_run(recipe, tmp_path / "kept", [notes], "cpu", use_cache=False)
    assert not any("over its budget" in note for note in notes.notes)
    assert not any("schedule is too short" in note for note in notes.notes)
    monkeypatch.setattr(Keeper, "usage", lambda _keeper: Usage(37_657, 0, 0, (0,)))
    start_run(recipe, tmp_path / "missed", [notes], "cpu", use_cache=False)
    assert any(note.startswith("the model is over its budget (37,657 of 37,656 kernels)") for note in notes.notes)


@pytest.mark.slow
def test_a_run_that_is_too_short_says_so_early_at_its_end_and_when_it_is_pruned(tmp_path: Path) -> None:
    domains = [str(write_domain(tmp_path / name, train=4, validation=2)) for name in ("one", "two")]
    backbone = {"name": "wrn14_2", "size": 16, "resize": 18}
    training = {"epochs": 2, "batch_size": 4, "switch_lr": 1e-5, "lr": 0.05}
    recipe = parse_recipe(
        {
            "preset": "paper",
            "backbone": backbone,
            "domains": domains,
            "budget": 0.5,
            "method": "union",
            "training": training,
        }
    )
    notes = _Notes()
    start_run(recipe, tmp_path / "run", [notes], "cpu", use_cache=False)
    early, *later = notes.notes
    assert early.startswith("the schedule is too short for the budget")
    over = "the run is over its budget of 50.0% of the kernels (one 100.0%, two 100.0%, all domains together 100.0%)"
    assert any(note.startswith(over) for note in later)
    ending = RunFolder(tmp_path / "run").read_ending()
    assert ending is not None
    assert list(ending.findings) == later
    with pytest.warns(BudgetWarning, match=r"model\.prunus: the file is larger than the dense network"):
        model = prune(tmp_path / "run", tmp_path / "model.prunus")
    pruned = find_problems_of_file(model)
    assert pruned[0].startswith(over)
    assert pruned[1].startswith("the file is larger than the dense network")
    assert len(find_problems_of_file(prune(tmp_path / "run", tmp_path / "half.prunus", "float16"))) == 1
