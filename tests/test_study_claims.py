"""How the study judges the claims of the paper, by made-up runs."""

from collections.abc import Sequence

import pytest

from benchmarks.studies import DEMO, NINE, STUDIES, Study
from benchmarks.study_claims import claims_of
from benchmarks.study_grid import GRID, SOURCE, THREE
from benchmarks.study_others import COMPARISONS, others
from benchmarks.study_results import StudyRun
from benchmarks.study_scores import scores
from tests.makers.study_runs import DEMO_IMAGES, NINE_IMAGES, all_seeds, made

CLAIMS = claims_of(NINE)


def verdict(claim: str, *parts: dict[tuple[str, int], StudyRun]) -> str:
    runs: dict[tuple[str, int], StudyRun] = {}
    for part in parts:
        runs |= part
    return CLAIMS[claim].verdict(runs)


BA2 = ("ba2-1", "ba2-0.75", "ba2-0.5", "ba2-0.25")
UNION = ("union-1", "union-0.75", "union-0.5", "union-0.25")


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_no_claim_is_judged_before_its_runs_are_measured_and_the_study_trains_all_of_them(
    study: Study, claim: str
) -> None:
    found = claims_of(study)[claim]
    assert found.verdict({}) == "not enough runs"
    assert found.is_open({})
    assert set(found.needs) <= set(study.rows)


def test_the_studies_judge_the_same_claims_in_the_same_order() -> None:
    assert list(claims_of(DEMO)) == list(CLAIMS)
    changed = [name for name, claim in claims_of(DEMO).items() if claim != CLAIMS[name]]
    assert changed == ["small", "efficiency"]
    rules = CLAIMS["small"].rule, claims_of(DEMO)["small"].rule
    assert rules[0] == (
        "the 3 domains with the fewest images lose more than the others, by more than noise; and so do those with the "
        "fewest images per class; each loses what the union loss costs against BA² that is trained for each domain "
        "alone, at β = 0.25; the source domain does not count"
    )
    assert rules[1] == (
        "the 2 domains with the fewest images lose more than the others, by more than noise; and so do those with the "
        "fewest images per class; each loses what the union loss costs against BA² that is trained for each domain "
        "alone, at β = 0.25"
    )
    assert CLAIMS["efficiency"].rule == claims_of(DEMO)["efficiency"].rule


def test_one_run_refutes_a_claim_about_every_run_while_others_are_missing() -> None:
    few = {("ba2-0.25", 1): made("ba2-0.25", 1, union=0.6)}
    assert verdict("sharing", few) == "does not hold"
    assert CLAIMS["sharing"].figures(few) == [
        "β = 0.25: together 0.600 of the kernels; by chance 0.672; at most 0.200 in a domain"  # 1 - 0.8^5
    ]
    many = {("ba2-0.25", 1): made("ba2-0.25", 1, union=0.95)}
    assert verdict("sharing", many) == "not enough runs"
    assert CLAIMS["sharing"].figures(many) == [
        "β = 0.25: together 0.950 of the kernels; by chance 0.672; at most 0.200 in a domain"
    ]
    over = {("union-0.25", 0): made("union-0.25", 0, macs_ratio=0.303, usage={"dtd": 0.25})}
    assert verdict("budget", over) == "kernels: not enough runs; MACs: does not hold"


def test_two_lost_budgets_refute_the_best_ratio_while_the_third_is_missing() -> None:
    names = [f"learned-{loss}-{beta}" for loss in ("intersection", "jaccard") for beta in (0.5, 0.25)]
    lost = all_seeds(names, sparsity=0.6) | all_seeds(["learned-union-0.5", "learned-union-0.25"])
    assert verdict("ratio", lost).startswith("rate 0.5: does not hold (one seed); rate 0.1: not enough runs")
    won = all_seeds(names) | all_seeds(["learned-union-0.5", "learned-union-0.25"], sparsity=0.6)
    assert verdict("ratio", won).startswith("rate 0.5: holds (one seed)")


def test_conditions_that_are_decided_are_counted_while_others_are_missing() -> None:
    assert verdict("macs", all_seeds(["ba2-0.5"]), all_seeds(["union-0.5"], macs_ratio=0.1)) == (
        "not enough runs (so far 1 of 3 conditions hold)"
    )
    several = all_seeds([f"{method}-{beta}" for method in ("ba2", "union") for beta in (0.5, 0.25)])
    assert verdict("macs", several, all_seeds(["union-0.25"], macs_ratio=0.1)) == (
        "not enough runs (so far 1 of 3 conditions hold, 1 of 3 conditions cannot be told from noise)"
    )


def test_sharing_is_low_if_all_domains_together_use_nearly_everything() -> None:
    assert verdict("sharing", all_seeds(BA2, union=0.95)) == "holds"
    assert verdict("sharing", all_seeds(BA2, union=0.95), all_seeds(BA2[3:], union=0.6)) == "does not hold"
    by_chance = 1 - 0.8**5  # five domains with a fifth of the kernels each
    assert verdict("sharing", all_seeds(BA2, union=0.9 * by_chance + 1e-6)) == "holds"
    assert verdict("sharing", all_seeds(BA2, union=0.9 * by_chance - 1e-6)) == "does not hold"


def test_the_best_ratio_is_that_of_the_largest_product_at_two_budgets() -> None:
    names = [f"learned-{loss}-{beta}" for loss in ("intersection", "jaccard") for beta in (0.75, 0.5, 0.25)]
    rivals = all_seeds(names, accuracy=0.8, sparsity=0.4)
    rivals |= all_seeds([f"dual_rate-{loss}-{rate}" for loss in ("union", "jaccard") for rate in (0.1, 0.01)])
    rivals |= all_seeds(["dual_rate-union-0.1", "dual_rate-union-0.01"], sparsity=0.6)
    union = [f"learned-union-{beta}" for beta in (0.75, 0.5, 0.25)]
    better, worse = {"accuracy": 0.7, "sparsity": 0.5}, {"accuracy": 0.7, "sparsity": 0.4}
    holds = verdict("ratio", rivals, all_seeds(union[:2], **better), all_seeds(union[2:], **worse))
    slower = "rate 0.1: not refuted (one seed); rate 0.01: not refuted (one seed)"  # without the intersection loss
    assert holds == f"rate 0.5: holds (one seed); {slower}"
    fails = verdict("ratio", rivals, all_seeds(union[:1], **better), all_seeds(union[1:], **worse))
    assert fails.startswith(f"rate 0.5: does not hold (one seed); {slower}")
    slow = all_seeds(["dual_rate-union-0.01"], sparsity=0.1)
    assert verdict("ratio", rivals, all_seeds(union[:2], **better), all_seeds(union[2:], **worse), slow).endswith(
        "rate 0.01: does not hold (one seed)"
    )


def test_little_is_pruned_if_no_run_leaves_more_than_the_limit_unused() -> None:
    needed = CLAIMS["jaccard"].needs
    assert verdict("jaccard", all_seeds(needed, sparsity=0.1)) == "holds (one seed)"
    assert "does not hold" in verdict("jaccard", all_seeds(needed[1:2], sparsity=0.11))


def test_a_fixed_weight_hardly_prunes_if_little_more_is_unused_than_without_the_loss() -> None:
    without = all_seeds(["order-ba2-round_robin"], sparsity=0.2)
    weights = ["fixed-union-1", "fixed-union-0.125"]
    assert verdict("fixed", without, all_seeds(weights, sparsity=0.249)) == "holds (one seed)"
    assert verdict("fixed", without, all_seeds(weights[:1], sparsity=0.251)) == "does not hold (one seed)"
    assert verdict("fixed", all_seeds(weights, sparsity=0.3)) == "not enough runs"


def test_the_jaccard_loss_has_a_verdict_for_each_rate_of_its_weight() -> None:
    runs = all_seeds(CLAIMS["jaccard"].needs, sparsity=0.05)
    assert verdict("jaccard", runs, all_seeds(["dual_rate-jaccard-0.01"], sparsity=0.4)) == (
        "rate 0.5: holds (one seed); rate 0.1: holds (one seed); rate 0.01: does not hold (one seed)"
    )


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ((0.010, 0.012, 0.011), "holds"),
        ((0.030, 0.031, 0.032), "does not hold"),
        ((-0.01, -0.011, -0.012), "does not hold"),
        ((0.02, -0.02, 0.01), "cannot be told from noise"),
    ],
)
def test_what_training_together_costs_is_paired_over_the_seeds(lost: Sequence[float], expected: str) -> None:
    levels = (0.6, 0.7, 0.8)  # far apart: only the differences count
    runs = {("ba2_individual-0.25", seed): made("ba2_individual-0.25", seed, accuracy=levels[seed]) for seed in THREE}
    runs |= {("ba2-0.25", seed): made("ba2-0.25", seed, accuracy=levels[seed] - lost[seed]) for seed in THREE}
    assert verdict("simultaneous", runs) == expected


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [
        ((0.10, 0.11, 0.12), (0.02, 0.02, 0.02), "holds"),
        ((0.02, 0.02, 0.02), (0.10, 0.11, 0.12), "does not hold"),
        ((0.10, 0.00, 0.05), (0.05, 0.05, 0.05), "cannot be told from noise"),
    ],
)
def test_small_domains_lose_most_if_the_three_smallest_lose_more(
    small: Sequence[float], large: Sequence[float], expected: str
) -> None:
    source = {SOURCE: 0.7}  # does not count, however few images it has
    sizes = made("union-0.25").train_images | {SOURCE: 1}
    whole = made("union-0.25").accuracies | source
    for unit, smallest in {
        "images": {"dtd": 20, "person": 60, "flowers": 102},
        "images per class": {"flowers": 1, "dtd": 2, "cub": 3},
    }.items():
        runs = all_seeds(["ba2_individual-0.25"], accuracies=whole)
        for seed in THREE:
            lower = {name: 0.7 - (small if name in smallest else large)[seed] for name in whole} | {SOURCE: 0.0}
            runs["union-0.25", seed] = made("union-0.25", seed, accuracies=lower, train_images=sizes)
        (found,) = (aspect for aspect in CLAIMS["small"].aspects if aspect.name == unit)
        assert found.verdict(runs) == expected
        named = ", ".join(f"{name} ({size})" for name, size in smallest.items())
        assert found.find(runs).figures[0].startswith(f"{named} {unit}: ")


@pytest.mark.parametrize(("lost", "expected"), [((0.1, 0.02), "holds"), ((0.02, 0.1), "does not hold")])
def test_the_small_domains_of_the_bundled_ones_are_characters_and_fruits(
    lost: tuple[float, float], expected: str
) -> None:
    runs = all_seeds(["ba2_individual-0.25"], train_images=DEMO_IMAGES)
    lower = {name: 0.7 - lost[name not in ("characters", "fruits")] for name in DEMO_IMAGES}
    runs |= all_seeds(["union-0.25"], accuracies=lower, train_images=DEMO_IMAGES)
    small = claims_of(DEMO)["small"]
    assert small.verdict(runs) == f"images: cannot be told from noise; images per class: {expected}"
    same, smallest = small.figures(runs)
    assert same == "characters and clothing both have 800 images, so no 2 domains are the smallest"  # fruits have fewer
    assert smallest.startswith("characters (16), fruits (30) images per class: they lose ")


def test_efficiency_is_compared_at_every_budget_with_the_scores_of_the_paper() -> None:
    base = all_seeds(("feature",), accuracy=0.65, macs_ratio=1.0) | all_seeds(("finetune",), accuracy=0.8)
    base |= all_seeds(BA2, macs_ratio=0.3) | all_seeds(UNION, macs_ratio=0.3)
    better = all_seeds(UNION[1:], macs_ratio=0.2)
    assert verdict("efficiency", base, better) == "holds"
    shown = CLAIMS["efficiency"].figures({**base, **better})[1]
    assert "(1.50 times, 95 % interval 1.50 to 1.50; higher with 3 of 3 seeds)" in shown  # 0.3 / 0.2 of the MACs
    assert verdict("efficiency", base, better, all_seeds(UNION[2:3], macs_ratio=0.4)) == "does not hold"
    assert verdict("efficiency", base, better, all_seeds(UNION[2:3], macs_ratio=0.3)) == "cannot be told from noise"
    # by hand: E_max = 0.4, so S = 5 * 1000 * (0.1 / 0.4)^2 = 312.5
    assert scores(base)["ba2-0.5", 0].s == pytest.approx(312.5)
    assert scores(base)["ba2-0.5", 0].s_o == pytest.approx(312.5 / 0.3)


def test_without_a_source_domain_efficiency_is_judged_by_all_domains_alone() -> None:
    runs = all_seeds(("feature",), accuracy=0.65, macs_ratio=1.0, train_images=DEMO_IMAGES)
    runs |= all_seeds(("finetune",), accuracy=0.8, train_images=DEMO_IMAGES)
    runs |= all_seeds(BA2, macs_ratio=0.3, train_images=DEMO_IMAGES)
    runs |= all_seeds(UNION[:1], macs_ratio=0.3, train_images=DEMO_IMAGES)
    runs |= all_seeds(UNION[1:], macs_ratio=0.2, train_images=DEMO_IMAGES)
    demo, nine = (claims_of(study)["efficiency"] for study in (DEMO, NINE))
    assert demo.verdict(runs) == "holds"
    assert len(demo.figures(runs)) == 4
    for shown, with_source in zip(demo.figures(runs), nine.figures(runs), strict=True):
        assert with_source.startswith(f"{shown}; without the source domain ")


def test_scores_can_leave_out_the_source_domain() -> None:
    base = all_seeds(("feature",), accuracy=0.65, macs_ratio=1.0) | all_seeds(("finetune",), accuracy=0.8)
    base |= all_seeds(BA2, macs_ratio=0.3)
    whole = {
        key: run.model_copy(
            update={
                "accuracies": run.accuracies | {SOURCE: 0.1},
                "domain_macs_ratio": run.domain_macs_ratio | {SOURCE: 1.0},
            }
        )
        for key, run in base.items()
    }
    assert scores(whole, SOURCE) == scores(base)
    assert scores(whole) != scores(base)
    apart = {("union-0.25-source_apart", 0): made("union-0.25-source_apart")}
    assert apart.keys() <= scores(whole | apart, SOURCE).keys()
    assert not apart.keys() & scores(whole | apart).keys()


def test_rows_of_no_claim_are_compared_with_another_row_once_both_have_runs() -> None:
    assert others({}, None) == "None of these rows has been measured yet.\n"
    runs = {("union-0.25-long", 0): made("union-0.25-long", accuracy=0.75, union=0.4)}
    assert others(runs, None) == others({}, None)
    title, _, head, _, line, *_ = others(runs | all_seeds(["union-0.25"]), None).splitlines()
    assert title == "**Three times as many epochs**"
    assert head == "| row | against | points | by images | together | MACs | Params |"
    assert line.startswith("| `union-0.25-long` | `union-0.25` | +5.0 (one seed) | ± ")
    assert "| 0.400 / 0.200 |" in line
    named = {name for pairs in COMPARISONS.values() for name, _ in pairs}
    assert named | {name for claim in CLAIMS.values() for name in claim.needs} == GRID.keys()
    everything = others(all_seeds(list(GRID)), None)
    assert all(f"| `{name}` | " in everything for name in named)


def test_the_source_is_left_out_in_a_column_of_its_own() -> None:
    sizes, whole = NINE_IMAGES | {SOURCE: 100}, made("union-0.25").accuracies
    runs = all_seeds(["union-0.5"], train_images=sizes, accuracies=whole | {SOURCE: 0.2})
    runs |= all_seeds(["ba2-0.5"], train_images=sizes, accuracies=whole | {SOURCE: 0.8})
    *_, head, _, line = others(runs, SOURCE).splitlines()
    assert "| by images | points without the source | together |" in head
    assert line.startswith("| `union-0.5` | `ba2-0.5` | -10.0 ± 0.0 | ")  # a sixth of 60 points
    assert "| +0.0 ± 0.0 |" in line


def test_the_noise_of_images_is_that_of_two_independent_shares() -> None:
    images = dict.fromkeys(NINE_IMAGES, 10_000)
    runs = all_seeds(["union-0.5", "ba2-0.5"], images=images)
    line = others(runs, None).splitlines()[4]
    reach = 196 * (2 * 0.7 * 0.3 / 50_000) ** 0.5  # points; five domains of 10,000 images
    assert f"| ± {reach:.1f} |" in line


def test_macs_are_compared_below_the_full_budget_and_with_the_budget_itself() -> None:
    base = all_seeds(BA2, macs_ratio=0.24)
    assert verdict("macs", base, all_seeds(UNION, macs_ratio=0.2)) == "holds"
    assert verdict("macs", base, all_seeds(UNION, macs_ratio=0.3)) == "does not hold"
    assert verdict("macs", base, all_seeds(UNION, macs_ratio=0.24)) == "cannot be told from noise"
    assert verdict("budget", all_seeds(UNION, macs_ratio=0.24)) == "holds"
    over = {("union-0.25", 2): made("union-0.25", 2, macs_ratio=0.26)}
    assert verdict("budget", all_seeds(UNION), over) == "kernels: holds; MACs: does not hold"
    wide = {("union-0.25", 2): made("union-0.25", 2, usage={"dtd": 0.2, "cub": 0.26})}
    assert verdict("budget", all_seeds(UNION), wide) == "kernels: does not hold; MACs: holds"


def test_taps_is_as_large_as_in_the_paper_and_less_efficient() -> None:
    base = all_seeds(("feature",), accuracy=0.65) | all_seeds(("finetune",), accuracy=0.8) | all_seeds(UNION)
    names = ("taps-1", "taps-0.25")
    assert verdict("taps", base, all_seeds(names, params_ratio=3.0)) == "holds"  # 2/5 of a backbone for each domain
    size = "several backbones: {}; as large per domain: {}; S_E: {}".format
    small, large = (all_seeds(names, params_ratio=ratio) for ratio in (1.2, 4.0))
    assert verdict("taps", base, small) == size("does not hold", "does not hold", "holds")
    assert verdict("taps", base, large) == size("holds", "does not hold", "holds")
    accurate = all_seeds(names, params_ratio=3.0, accuracy=0.99)
    assert verdict("taps", base, accurate) == size("holds", "holds", "does not hold")


def test_frozen_domains_share_less_than_half_and_orders_differ_by_a_point_at_most() -> None:
    union = all_seeds(["learned-union-0.25"], sparsity=0.6)
    assert verdict("freezing", union, all_seeds(["frozen-others"], sparsity=0.1)) == "holds (one seed)"
    assert verdict("freezing", union, all_seeds(["frozen-others"], sparsity=0.5)) == "does not hold (one seed)"


def test_orders_are_compared_with_the_noise_of_their_images() -> None:
    needed = CLAIMS["orders"].needs
    many = {"images": dict.fromkeys(NINE_IMAGES, 10_000)}
    orders = all_seeds(needed, **many)
    assert verdict("orders", orders) == "holds (one seed)"
    far = all_seeds(["order-union-mixed"], accuracy=0.68, **many)
    assert verdict("orders", orders, far) == "does not hold (one seed)"
    near = all_seeds(["order-union-mixed"], accuracy=0.689, **many)  # 1.1 points, but 0.6 may be noise
    assert verdict("orders", orders, near) == "cannot be told from noise (one seed)"
    assert verdict("orders", all_seeds(needed)) == "cannot be told from noise (one seed)"  # 500 images


def test_a_best_ratio_that_few_images_could_reverse_is_noise() -> None:
    rows = [f"learned-{loss}-{beta}" for loss in ("intersection", "jaccard") for beta in (0.75, 0.5, 0.25)]
    rivals = all_seeds(rows, accuracy=0.7, sparsity=0.4)
    for accuracy in (0.69, 0.71):
        close = all_seeds([f"learned-union-{beta}" for beta in (0.75, 0.5, 0.25)], accuracy=accuracy, sparsity=0.4)
        assert verdict("ratio", rivals, close).startswith("rate 0.5: cannot be told from noise (one seed); ")
