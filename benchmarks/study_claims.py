"""The claims of the paper: their words and figures, and the conditions under which they hold here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from benchmarks import study_judges as judges
from benchmarks.studies import Study
from benchmarks.study_grid import LOSSES
from benchmarks.study_judging import Aspect, Claim, Finding, Part
from benchmarks.study_results import Runs

BUDGETS = (1.0, 0.75, 0.5, 0.25)
RATES = (0.1, 0.01)  # of the multiplier of the sharing loss, besides the usual 0.5
REFERENCES = ("feature", "finetune")


class _Judge(Protocol):
    def __call__(self, runs: Runs, beta: float) -> Finding: ...


def _by_budget(
    judge: _Judge,
    rows: Sequence[str],
    budgets: Sequence[float] = BUDGETS,
    others: Sequence[str] = (),
    each_run: bool = False,
) -> tuple[Part, ...]:
    """Return a condition per budget, which the rows of that budget decide."""
    return tuple(
        Part((*others, *(f"{name}-{beta:g}" for name in rows)), partial(judge, beta=beta), each_run) for beta in budgets
    )


def _prunes_at_most(limit: float, rows: Mapping[str, str]) -> tuple[Part, ...]:
    """Return a condition per row, with what the page calls it."""
    return tuple(
        Part((name,), partial(judges.prunes_at_most, name=name, limit=limit, title=title))
        for name, title in rows.items()
    )


def _by_rate(rate: float) -> Part:
    rows = (f"dual_rate-union-{rate:g}", f"dual_rate-jaccard-{rate:g}")
    return Part(rows, partial(judges.better_than_jaccard, rate=rate))


def _fixed(weight: float) -> Part:
    name, base = f"fixed-union-{weight:g}", "order-ba2-round_robin"
    judge = partial(judges.prunes_hardly_more, name=name, base=base, limit=judges.HARDLY, title=f"weight {weight:g}")
    return Part((name, base), judge)


def _by_order(name: str, base: str) -> Part:
    return Part((name, base), partial(judges.order_is_similar, name=name, base=base))


# claims 1 to 5: these and those of LAST are judged alike in every study
FIRST: Mapping[str, Claim] = {
    "sharing": Claim(
        "Without a sharing loss domains share few kernels: together they use almost all.",
        "BA² has 1.03 of the backbone's parameters at every budget",
        f"together at least {judges.BY_CHANCE} of the kernels that they would use if each chose by chance, at every "
        "budget with every seed",
        (Aspect("", _by_budget(judges.low_sharing, ["ba2"], each_run=True)),),
    ),
    "ratio": Claim(
        "The union loss with a learned weight has the best ratio of accuracy and sparsity.",
        "β = 0.25: union 69.2 and 63.1 %, intersection 63.2 and 67.5 %, Jaccard 72.0 and 5.7 %",
        "the largest product of both at two of three budgets, by more than the noise of the images; the paper gives no "
        "formula, and no rate at which the weight is learned. At other rates than 0.5 only the union and the Jaccard "
        "loss are trained, so these can refute the claim, but not show it",
        (
            Aspect("rate 0.5", _by_budget(judges.best_ratio, [f"learned-{loss}" for loss in LOSSES], BUDGETS[1:]), 1),
            *(Aspect(f"rate {rate:g}", (_by_rate(rate),)) for rate in RATES),
        ),
        "the paper's own table passes this rule narrowly. By the products of its figures the union loss is ahead of "
        "the intersection loss at 0.75 and 0.25 (15.2 against 14.8, 43.7 against 42.7) and behind it at 0.5 (23.3 "
        "against 29.3)",
    ),
    "jaccard": Claim(
        "The Jaccard loss with a learned weight prunes little.",
        "sparsity 2.1, 5.7 and 5.7 %",
        f"sparsity at most {judges.LITTLE:.0%}, for each rate at which the weight is learned: at every budget with "
        "0.5, at β = 0.25 with the others",
        (
            Aspect(
                "rate 0.5",
                _prunes_at_most(judges.LITTLE, {f"learned-jaccard-{b:g}": f"rate 0.5, β = {b:g}" for b in BUDGETS[1:]}),
            ),
            *(
                Aspect(
                    f"rate {rate:g}",
                    _prunes_at_most(judges.LITTLE, {f"dual_rate-jaccard-{rate:g}": f"rate {rate:g}, β = 0.25"}),
                )
                for rate in RATES
            ),
        ),
    ),
    "fixed": Claim(
        "The union loss with a fixed weight hardly prunes.",
        "sparsity 1.8 % at best",
        f"at β = 0.25, with each weight, at most {100 * judges.HARDLY:.0f} points more sparsity than BA² has; the "
        "paper also tried the weights 0.5 and 0.25, at four budgets",
        (Aspect("", tuple(_fixed(weight) for weight in (1.0, 0.125))),),
    ),
    "simultaneous": Claim(
        "Training BA² in all domains at once costs up to 2.4 points.",
        "up to 2.4 points",
        f"a loss that is more than noise and at most {judges.MOST_LOST} points",
        (Aspect("", (Part(("ba2_individual-0.25", "ba2-0.25"), judges.simultaneous_costs),)),),
        "no such cost can arise here. Without a sharing loss, domains have nothing in common that is learned, and each "
        "sees the same batches in the same order in both cases; only random crops and rounding differ. So the paper's "
        "loss must have another cause, which it does not describe",
    ),
}
# claims 8 to 12
LAST: Mapping[str, Claim] = {
    "macs": Claim(
        "The union loss computes less than BA² at every budget.",
        "0.461 against 0.612, 0.403 against 0.543, 0.212 against 0.325 on the Visual Decathlon; 0.590 against 0.559 at "
        "0.5 on ImageNet-to-Sketch",
        "less by more than noise at every budget below 1, where the loss acts",
        (Aspect("", _by_budget(judges.fewer_macs, ["union", "ba2"], BUDGETS[1:])),),
    ),
    "budget": Claim(
        "With the union loss, every domain uses less than its budget, and computes less on average.",
        "0.581, 0.461, 0.403 and 0.212 of the MACs at β = 1, 0.75, 0.5 and 0.25 on the Visual Decathlon; 0.590 at 0.5 "
        "on ImageNet-to-Sketch",
        "with every seed and at every budget, no domain uses more than β of the kernels; and the mean over domains of "
        "the MACs is below β",
        (
            Aspect("kernels", _by_budget(judges.kernels_below_the_budget, ["union"], each_run=True)),
            Aspect("MACs", _by_budget(judges.macs_below_the_budget, ["union"], each_run=True)),
        ),
    ),
    "taps": Claim(
        "TAPS stores several backbones, and its S_E is lower.",
        "{:g} to {:g} backbones for ten domains, S_E 5.3 to 7.3".format(*judges.TAPS_SIZE),
        "more than {} backbones with every seed; as in the paper, {:g} to {:g} backbones for each domain, beside the "
        "one that all share; and a lower S_E than the union loss at β = 0.25; each for both settings of TAPS".format(
            judges.SEVERAL, *judges.TAPS_PER_DOMAIN
        ),
        (
            Aspect(
                "several backbones",
                tuple(
                    Part((name,), partial(judges.taps_is_several_backbones, name=name))
                    for name in ("taps-1", "taps-0.25")
                ),
            ),
            Aspect(
                "as large per domain",
                tuple(Part((name,), partial(judges.taps_is_as_large, name=name)) for name in ("taps-1", "taps-0.25")),
            ),
            Aspect(
                "S_E",
                tuple(
                    Part((*REFERENCES, name, "union-0.25"), partial(judges.taps_is_less_efficient, name=name))
                    for name in ("taps-1", "taps-0.25")
                ),
            ),
        ),
    ),
    "freezing": Claim(
        "If the other domains are frozen, the loss does not make domains share.",
        "no figures",
        "at most half of the sparsity that the loss reaches without freezing; in both runs its weight is learned at a "
        "rate of 0.5",
        (Aspect("rate 0.5", (Part(("frozen-others", "learned-union-0.25"), judges.frozen_others_share_nothing),)),),
    ),
    "orders": Claim(
        "A batch of each domain in turn, mixed batches and a round robin of epochs are similarly accurate.",
        "no figures",
        f"all within {judges.SIMILAR:g} point of the round robin, with the noise of the images",
        (
            Aspect(
                "",
                tuple(
                    _by_order(f"order-{method}-{order}", base)
                    for method, base in (("ba2", "order-ba2-round_robin"), ("union", "learned-union-0.25"))
                    for order in ("alternate", "mixed")
                ),
            ),
        ),
        "without a sharing loss, a batch of each domain in turn trains every domain with the same batches in the same "
        "order as the round robin. So `order-ba2-alternate` shows how far apart two runs are by chance. There are too "
        f"few images here to show a difference below {judges.SIMILAR:g} point: the claim can be refuted, or stay open",
    ),
}


def claims_of(study: Study) -> dict[str, Claim]:
    """Return the claims in the order of their numbers, as a study judges them."""
    return {**FIRST, "small": _small(study), "efficiency": _efficiency(study), **LAST}


def _small(study: Study) -> Claim:
    parts = {"images": judges.few_images_lose_most, "images per class": judges.few_images_per_class_lose_most}
    return Claim(
        "Small domains lose most.",
        'the largest losses against BA² are those of Aircraft, DTD, Flowers and UCF-101, "the smaller ones"',
        f"the {study.small} domains with the fewest images lose more than the others, by more than noise; and so do "
        "those with the fewest images per class; each loses what the union loss costs against BA² that is trained for "
        "each domain alone, at β = 0.25" + ("; the source domain does not count" if study.source else ""),
        tuple(
            Aspect(
                unit,
                (
                    Part(
                        ("ba2_individual-0.25", "union-0.25"),
                        partial(judge, count=study.small, source=study.source),
                    ),
                ),
            )
            for unit, judge in parts.items()
        ),
    )


def _efficiency(study: Study) -> Claim:
    judge = partial(judges.better_efficiency, source=study.source)
    return Claim(
        "The union loss has a higher S_E than BA² at every budget.",
        "52.06 against 51.97, 69.4 against 50.3, 74.5 against 54.4, 177.7 against 65.0 on the Visual Decathlon; on "
        "ImageNet-to-Sketch lower at 1 and 0.5 (7.19 against 7.81, 5.80 against 6.26)",
        "higher by more than noise at every budget below 1, and not lower at 1, where both train the same. The noise "
        "is that of the ratio over the seeds; the number of images adds to it",
        (Aspect("", _by_budget(judge, ["union", "ba2"], others=REFERENCES)),),
    )
