"""The claims of the paper, each a function from the runs of the study to a verdict with its figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.study_grid import GRID, LOSSES
from benchmarks.study_results import Runs, StudyRun
from prunus.measure.score import Scores, decathlon_score, efficiency_scores
from prunus.uncertainty import T

Verdict = Literal["holds", "does not hold", "cannot be told from noise", "not enough runs"]
BUDGETS = (1.0, 0.75, 0.5, 0.25)
NEARLY_ALL = 0.9  # of the kernels
LITTLE = 0.1  # of the kernels
HARDLY = 0.05  # of the kernels; the paper's 1.8 % at most
MOST_LOST = 2.4  # points, by simultaneous training
SIMILAR = 1.0  # points; the paper gives no number for "similar"
SMALL = 3  # domains with the fewest training images


@dataclass(frozen=True)
class Finding:
    """What the runs say about a claim.

    Args:
        figures: what was measured, one sentence each.
    """

    verdict: Verdict
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Args:
        text: what the paper says, in our words.
        paper: the paper's own figures.
        rule: when it holds here.
        needs: the rows of the grid that decide it.
        judge: what decides it, once all those rows are measured.
    """

    text: str
    paper: str
    rule: str
    needs: tuple[str, ...]
    judge: Callable[[Runs], Finding]

    def missing(self, runs: Runs) -> list[tuple[str, int]]:
        """List the runs that are needed and not measured yet."""
        return [(name, seed) for name in self.needs for seed in GRID[name].seeds if (name, seed) not in runs]

    def find(self, runs: Runs) -> Finding:
        """Judge the claim if its runs are measured."""
        return Finding("not enough runs") if self.missing(runs) else self.judge(runs)


@dataclass(frozen=True)
class Difference:
    """Differences that are paired over the seeds, with the half width of their 95 % interval; none for one seed."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float:
        """Return the half width of the 95 % interval, by Student's distribution; infinite for one seed."""
        count = len(self.values)
        if count < 2:  # one value has no spread
            return math.inf
        return T[min(count - 1, len(T)) - 1] * statistics.stdev(self.values) / math.sqrt(count)

    @property
    def sign(self) -> int:
        """Return 1 or -1 if the difference is more than noise, and else 0."""
        return 0 if abs(self.mean) <= self.spread else int(math.copysign(1, self.mean))

    def written(self, digits: int = 1) -> str:
        """Write mean and spread."""
        spread = f" ± {self.spread:.{digits}f}" if math.isfinite(self.spread) else " (one seed)"
        return f"{self.mean:+.{digits}f}{spread}"


def row(runs: Runs, name: str) -> list[StudyRun]:
    """Return the measured seeds of a row, in the order of the seeds."""
    return [run for (found, _), run in sorted(runs.items()) if found == name]


def paired(runs: Runs, name: str, other: str, value: Callable[[StudyRun], float]) -> Difference:
    """Return the differences of two rows over the seeds that both have."""
    seeds = [seed for found, seed in sorted(runs) if found == name and (other, seed) in runs]
    return Difference(tuple(value(runs[name, seed]) - value(runs[other, seed]) for seed in seeds))


def points(run: StudyRun) -> float:
    """Return the mean accuracy in points."""
    return 100 * run.mean_accuracy


def scores(runs: Runs) -> dict[tuple[str, int], Scores]:
    """Score the test runs of all domains; the references are means over the seeds, as in `prunus compare`."""
    references = {name: row(runs, name) for name in ("finetune", "feature")}
    if not all(references.values()):
        return {}
    domains = list(references["finetune"][0].accuracies)
    means = {
        name: [statistics.fmean(run.accuracies[domain] for run in found) for domain in domains]
        for name, found in references.items()
    }
    feature = decathlon_score(means["feature"], means["finetune"])
    return {
        key: efficiency_scores(
            decathlon_score([run.accuracies[domain] for domain in domains], means["finetune"]),
            run.macs_ratio,
            run.params_ratio,
            feature,
        )
        for key, run in runs.items()
        if run.split == "test" and set(run.accuracies) == set(domains)
    }


def mean_of(found: Sequence[StudyRun], value: Callable[[StudyRun], float]) -> float:
    """Return the mean of a value over runs."""
    return statistics.fmean(map(value, found))


def decided(is_true: bool, figures: Sequence[str]) -> Finding:
    """Return a finding that no noise can change, or of one seed."""
    return Finding("holds" if is_true else "does not hold", tuple(figures))


def low_sharing(runs: Runs) -> Finding:
    """Without a sharing loss, all domains together use nearly all kernels."""
    unions = {beta: mean_of(row(runs, f"ba2-{beta:g}"), lambda run: run.union) for beta in BUDGETS}
    figures = [f"β = {beta:g}: together {union:.1%} of the kernels" for beta, union in unions.items()]
    return decided(min(unions.values()) >= NEARLY_ALL, figures)


def best_ratio(runs: Runs) -> Finding:
    """The union loss has the best product of accuracy and sparsity at most budgets."""
    figures = []
    wins = 0
    for beta in BUDGETS[1:]:
        found = {loss: row(runs, f"learned-{loss}-{beta:g}")[0] for loss in LOSSES}
        products = {loss: run.mean_accuracy * run.sparsity for loss, run in found.items()}
        wins += max(products, key=lambda loss: products[loss]) == "union"
        cells = [f"{loss} {points(run):.1f} % and {100 * run.sparsity:.1f} %" for loss, run in found.items()]
        figures.append(f"β = {beta:g}, accuracy and sparsity: {', '.join(cells)}")
    return decided(wins >= 2, [*figures, f"the union loss has the largest product at {wins} of 3 budgets"])


def jaccard_prunes_little(runs: Runs) -> Finding:
    """The Jaccard loss with a learned weight leaves few kernels unused at every budget."""
    found = {beta: row(runs, f"learned-jaccard-{beta:g}")[0].sparsity for beta in BUDGETS[1:]}
    figures = [f"β = {beta:g}: {100 * sparsity:.1f} % of the kernels unused" for beta, sparsity in found.items()]
    return decided(max(found.values()) <= LITTLE, figures)


def fixed_union_prunes_little(runs: Runs) -> Finding:
    """The union loss with a fixed weight leaves hardly any kernel unused."""
    found = {weight: row(runs, f"fixed-union-{weight:g}")[0].sparsity for weight in (1.0, 0.125)}
    figures = [f"weight {weight:g}: {100 * sparsity:.1f} % of the kernels unused" for weight, sparsity in found.items()]
    return decided(max(found.values()) <= HARDLY, figures)


def simultaneous_costs(runs: Runs) -> Finding:
    """Training all domains together costs accuracy, but not more than the paper's loss."""
    lost = paired(runs, "ba2_individual-0.25", "ba2-0.25", points)
    figures = [f"together {lost.written()} points lost at β = 0.25"]
    if lost.sign == 0:
        return Finding("cannot be told from noise", tuple(figures))
    return decided(0 < lost.mean <= MOST_LOST, figures)


def small_domains_lose_most(runs: Runs) -> Finding:
    """Against BA² trained individually, the union loss costs the smallest domains more than the others."""
    sizes = row(runs, "union-0.25")[0].train_images
    small = sorted(sizes, key=lambda domain: sizes[domain])[:SMALL]

    def gap(run: StudyRun) -> float:
        others = [domain for domain in sizes if domain not in small]
        means = [100 * statistics.fmean(run.accuracies[domain] for domain in part) for part in (small, others)]
        return means[0] - means[1]

    more = Difference(tuple(-value for value in paired(runs, "union-0.25", "ba2_individual-0.25", gap).values))
    figures = [f"{', '.join(small)} lose {more.written()} points more than the others"]
    if more.sign == 0:
        return Finding("cannot be told from noise", tuple(figures))
    return decided(more.sign > 0, figures)


def better_efficiency(runs: Runs) -> Finding:
    """The union loss has a higher S_E than BA² at every budget; at 1 both train the same."""
    found = scores(runs)
    signs = []
    figures = []
    for beta in BUDGETS:
        values = {
            (method, seed): found[f"{method}-{beta:g}", seed].s_e or 0.0
            for method in ("union", "ba2")
            for seed in GRID[f"{method}-{beta:g}"].seeds
        }
        seeds = GRID[f"union-{beta:g}"].seeds
        gain = Difference(tuple(values["union", seed] - values["ba2", seed] for seed in seeds))
        means = [statistics.fmean(values[method, seed] for seed in seeds) for method in ("union", "ba2")]
        figures.append(f"β = {beta:g}: {means[0]:.1f} against {means[1]:.1f} ({gain.written()})")
        signs.append(gain.sign)
    if min(signs) < 0:
        return Finding("does not hold", tuple(figures))
    return Finding("holds" if min(signs[1:]) > 0 else "cannot be told from noise", tuple(figures))


def below_the_budget(runs: Runs) -> Finding:
    """With the union loss the MACs stay below the budget, at every budget and with every seed."""
    figures = []
    kept = []
    for beta in BUDGETS:
        found = row(runs, f"union-{beta:g}")
        usage = max(max(run.usage.values()) for run in found)
        macs = [run.macs_ratio for run in found]
        kept.append(max(macs) < beta)
        figures.append(
            f"β = {beta:g}: {statistics.fmean(macs):.3f} of the MACs (at most {max(macs):.3f}), "
            f"at most {usage:.3f} of the kernels in a domain and {max(run.union for run in found):.3f} together"
        )
    return decided(all(kept), figures)


def fewer_macs(runs: Runs) -> Finding:
    """The union loss computes less than BA² at every budget below 1."""
    less = {beta: paired(runs, f"ba2-{beta:g}", f"union-{beta:g}", lambda run: run.macs_ratio) for beta in BUDGETS[1:]}
    figures = [f"β = {beta:g}: {gain.written(3)} of the backbone's MACs saved" for beta, gain in less.items()]
    signs = [gain.sign for gain in less.values()]
    if min(signs) > 0:
        return Finding("holds", tuple(figures))
    return Finding("does not hold" if min(signs) < 0 else "cannot be told from noise", tuple(figures))


def taps_is_large(runs: Runs) -> Finding:
    """TAPS stores more than the backbone, and has a lower S_E than the union loss."""
    found = scores(runs)
    figures = []
    truths = []
    for name in ("taps-1", "taps-0.25"):
        params = mean_of(row(runs, name), lambda run: run.params_ratio)
        s_e = {
            other: statistics.fmean(found[other, seed].s_e or 0.0 for seed in GRID[other].seeds)
            for other in (name, "union-0.25")
        }
        truths += [params > 1, s_e[name] < s_e["union-0.25"]]
        figures.append(f"{name}: {params:.2f} backbones, S_E {s_e[name]:.1f} against {s_e['union-0.25']:.1f}")
    return decided(all(truths), figures)


def frozen_others_share_nothing(runs: Runs) -> Finding:
    """If the loss moves only the domains of the batch, at most half as many kernels stay unused."""
    frozen, free = (row(runs, name)[0].sparsity for name in ("frozen-others", "learned-union-0.25"))
    figures = [f"{100 * frozen:.1f} % of the kernels unused, against {100 * free:.1f} %"]
    return decided(frozen <= free / 2, figures)


def orders_are_similar(runs: Runs) -> Finding:
    """Taking turns by batches, or mixing batches, is about as accurate as a round robin of epochs."""
    bases = {"ba2": "order-ba2-round_robin", "union": "learned-union-0.25"}
    found = {
        f"{method}, {order}": paired(runs, f"order-{method}-{order}", base, points)
        for method, base in bases.items()
        for order in ("alternate", "mixed")
    }
    figures = [f"{name}: {difference.written()} points" for name, difference in found.items()]
    return decided(max(abs(difference.mean) for difference in found.values()) <= SIMILAR, figures)


def _masked(method: str) -> tuple[str, ...]:
    return tuple(f"{method}-{beta:g}" for beta in BUDGETS)


REFERENCES = ("feature", "finetune")
LEARNED = tuple(f"learned-{loss}-{beta:g}" for beta in BUDGETS[1:] for loss in LOSSES)
CLAIMS: Mapping[str, Claim] = {
    "sharing": Claim(
        "Without a sharing loss domains share few kernels: together they use almost all.",
        "BA² has 1.03 of the backbone's parameters at every budget",
        f"together at least {NEARLY_ALL:.0%} of the kernels at every budget",
        _masked("ba2"),
        low_sharing,
    ),
    "ratio": Claim(
        "The union loss with a learned weight has the best ratio of accuracy and sparsity.",
        "β = 0.25: union 69.2 and 63.1 %, intersection 63.2 and 67.5 %, Jaccard 72.0 and 5.7 %",
        "the largest product of both at two of three budgets; the paper gives no formula",
        LEARNED,
        best_ratio,
    ),
    "jaccard": Claim(
        "The Jaccard loss with a learned weight prunes little.",
        "2.1, 5.7 and 5.7 % of the kernels",
        f"at most {LITTLE:.0%} of the kernels unused at every budget",
        tuple(name for name in LEARNED if "jaccard" in name),
        jaccard_prunes_little,
    ),
    "fixed": Claim(
        "The union loss with a fixed weight hardly prunes.",
        "1.8 % of the kernels at best",
        f"at most {HARDLY:.0%} of the kernels unused at β = 0.25",
        ("fixed-union-1", "fixed-union-0.125"),
        fixed_union_prunes_little,
    ),
    "simultaneous": Claim(
        "Training BA² in all domains at once costs up to 2.4 points.",
        "up to 2.4 points",
        f"a loss that is more than noise and at most {MOST_LOST} points",
        ("ba2_individual-0.25", "ba2-0.25"),
        simultaneous_costs,
    ),
    "small": Claim(
        "Small domains lose most.",
        "the largest losses against BA² are those of Aircraft, DTD, Flowers and UCF-101",
        f"the {SMALL} domains with the fewest images lose more than the others, by more than noise",
        ("ba2_individual-0.25", "union-0.25"),
        small_domains_lose_most,
    ),
    "efficiency": Claim(
        "The union loss has a higher S_E than BA² at every budget.",
        "52.06 against 51.97, 69.4 against 50.3, 74.5 against 54.4, 177.7 against 65.0",
        "higher by more than noise at every budget below 1, and not lower at 1, where both train the same",
        (*REFERENCES, *_masked("union"), *_masked("ba2")),
        better_efficiency,
    ),
    "macs": Claim(
        "The union loss computes less than BA² at every budget.",
        "0.461 against 0.612, 0.403 against 0.543, 0.212 against 0.325",
        "less by more than noise at every budget below 1, where the loss acts",
        (*_masked("union")[1:], *_masked("ba2")[1:]),
        fewer_macs,
    ),
    "budget": Claim(
        "With the union loss, every model computes less than its budget.",
        "0.581, 0.461, 0.403 and 0.212 of the MACs at β = 1, 0.75, 0.5 and 0.25",
        "the mean over domains of the MACs is below β with every seed",
        _masked("union"),
        below_the_budget,
    ),
    "taps": Claim(
        "TAPS stores more than the backbone, and its S_E is lower.",
        "3.78 to 5.68 backbones, S_E 5.3 to 7.3",
        "more than one backbone, and a lower S_E than the union loss at β = 0.25",
        (*REFERENCES, "taps-1", "taps-0.25", "union-0.25"),
        taps_is_large,
    ),
    "freezing": Claim(
        "If the other domains are frozen, the loss does not make domains share.",
        "no figures",
        "at most half of the sparsity",
        ("frozen-others", "learned-union-0.25"),
        frozen_others_share_nothing,
    ),
    "orders": Claim(
        "A batch of each domain in turn, mixed batches and a round robin of epochs are similarly accurate.",
        "no figures",
        f"all within {SIMILAR:g} point, with one seed each",
        (*(name for name in GRID if name.startswith("order-")), "learned-union-0.25"),
        orders_are_similar,
    ),
}
