"""What decides each claim of the paper: functions from the measured runs to a finding."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.study_grid import CLASSES, GRID, LOSSES
from benchmarks.study_judging import (
    HOLDS,
    NOISE,
    UNREFUTED,
    Difference,
    Finding,
    accuracy_of_images,
    by_sign,
    decided,
    paired,
    points,
    reach_of_images,
    row,
)
from benchmarks.study_results import Runs, StudyRun
from benchmarks.study_scores import scores
from prunus.uncertainty import is_noise

BY_CHANCE = 0.9  # of the kernels that domains use together if each chooses its own by chance
LITTLE = 0.1  # sparsity
HARDLY = 0.05  # sparsity, more than without the loss; the paper's 1.8 % at most
MOST_LOST = 2.4  # points, by simultaneous training
SIMILAR = 1.0  # points; the paper gives no number for "similar"
LEAST_SCORE = 0.01  # so that a score of 0 has a logarithm
SEVERAL = 2  # backbones
TAPS_SIZE = (3.78, 5.68)  # backbones for ten domains, in the paper's tables
TAPS_PER_DOMAIN = tuple(
    round((size - 1) / 9, 2) for size in TAPS_SIZE
)  # besides the shared one; nine domains add to it


def low_sharing(runs: Runs, beta: float) -> Finding:
    """Without a sharing loss, domains together use nearly as many kernels as by chance, with every seed."""
    found = row(runs, f"ba2-{beta:g}")
    unions = [run.union for run in found]
    chances = [1 - math.prod(1 - usage for usage in run.usage.values()) for run in found]
    figure = f"β = {beta:g}: together {_range(unions)} of the kernels; by chance {_range(chances)}"
    return decided(
        all(union >= BY_CHANCE * chance for union, chance in zip(unions, chances, strict=True)),
        f"{figure}; at most {max(max(run.usage.values()) for run in found):.3f} in a domain",
    )


def best_ratio(runs: Runs, beta: float) -> Finding:
    """The union loss has the best product of accuracy and sparsity at a budget."""
    return _largest_product(runs, f"β = {beta:g}", {loss: f"learned-{loss}-{beta:g}" for loss in LOSSES})


def better_than_jaccard(runs: Runs, rate: float) -> Finding:
    """With another rate of the multiplier, the union loss has a better product than Jaccard; intersection is absent."""
    names = {loss: f"dual_rate-{loss}-{rate:g}" for loss in ("union", "jaccard")}
    finding = _largest_product(runs, f"rate {rate:g}, β = 0.25", names)
    return replace(finding, verdict=UNREFUTED) if finding.verdict == HOLDS else finding


def _largest_product(runs: Runs, title: str, names: dict[str, str]) -> Finding:
    found = {loss: row(runs, name)[0] for loss, name in names.items()}
    products = {loss: run.mean_accuracy * run.sparsity for loss, run in found.items()}
    best = max(products, key=lambda loss: products[loss])
    other = max((loss for loss in products if loss != "union"), key=lambda loss: products[loss])
    cells = [f"{loss} {points(run):.1f} % and {100 * run.sparsity:.1f} %" for loss, run in found.items()]
    figure = f"{title}, accuracy and sparsity: {', '.join(cells)}; the largest product has {best}"
    lower = other if best == "union" else "union"
    if found[best].mean_accuracy < found[lower].mean_accuracy or found[best].sparsity < found[lower].sparsity:
        figure += f", but {lower} is better in one of the two"
    intervals = {}
    for loss, run in found.items():
        low, high = accuracy_of_images(run)
        intervals[loss] = low * run.sparsity, high * run.sparsity
    if is_noise(products[best], intervals[best], products[lower], intervals[lower]):
        return Finding(NOISE, (figure,))
    return decided(best == "union", figure)


def prunes_at_most(runs: Runs, name: str, limit: float, title: str) -> Finding:
    """A row has little sparsity."""
    sparsity = max(run.sparsity for run in row(runs, name))
    return decided(sparsity <= limit, f"{title}: sparsity {100 * sparsity:.1f} %")


def prunes_hardly_more(runs: Runs, name: str, base: str, limit: float, title: str) -> Finding:
    """A row has little more sparsity than another one without the loss."""
    sparsity, without = (statistics.fmean(run.sparsity for run in row(runs, key)) for key in (name, base))
    figure = f"{title}: sparsity {100 * sparsity:.1f} %, without the loss {100 * without:.1f} %"
    return decided(sparsity - without <= limit, figure)


def simultaneous_costs(runs: Runs) -> Finding:
    """Training all domains together costs accuracy, but not more than the paper's loss."""
    gained = paired(runs, "ba2-0.25", "ba2_individual-0.25", points)
    figure = f"together {gained.written()} points at β = 0.25"
    return Finding(NOISE, (figure,)) if gained.sign == 0 else decided(0 < -gained.mean <= MOST_LOST, figure)


def few_images_lose_most(runs: Runs, count: int, source: str | None) -> Finding:
    """Against BA² trained individually, the union loss costs the domains with the fewest images more than the others.

    Args:
        count: how many domains are small.
        source: a domain that does not count: the backbone has learned from many more of its images.
    """
    images = row(runs, "union-0.25")[0].train_images
    return _small_lose_most(runs, images, count, source, "images")


def few_images_per_class_lose_most(runs: Runs, count: int, source: str | None) -> Finding:
    """The same of the domains with the fewest images for each class."""
    images = row(runs, "union-0.25")[0].train_images
    by_class = {domain: number / CLASSES[domain] for domain, number in images.items()}
    return _small_lose_most(runs, by_class, count, source, "images per class")


def _small_lose_most(runs: Runs, sizes: Mapping[str, float], count: int, source: str | None, unit: str) -> Finding:
    counted = {domain: size for domain, size in sizes.items() if domain != source}
    ordered = sorted(counted, key=lambda domain: counted[domain])
    small, others = ordered[:count], ordered[count:]
    named = ", ".join(f"{domain} ({counted[domain]:.0f})" for domain in small)
    if counted[small[-1]] == counted[others[0]]:
        both = f"{small[-1]} and {others[0]} both have {counted[small[-1]]:.0f} {unit}"
        return Finding(NOISE, (f"{both}, so no {count} domains are the smallest",))

    def gap(run: StudyRun) -> float:
        means = [100 * statistics.fmean(run.accuracies[domain] for domain in part) for part in (small, others)]
        return means[0] - means[1]

    more = Difference(tuple(-value for value in paired(runs, "union-0.25", "ba2_individual-0.25", gap).values))
    return by_sign(more.sign, f"{named} {unit}: they lose {more.written()} points more than the others")


def better_efficiency(runs: Runs, beta: float, source: str | None) -> Finding:
    """The union loss has a higher S_E than BA² at a budget; at 1 both train the same."""
    gain, written = _efficiency_gained(runs, beta)
    figure = f"β = {beta:g}: {written}"
    if source is not None:
        figure += f"; without the source domain {_efficiency_gained(runs, beta, source)[1]}"
    return _at_least_at_one(beta, gain.sign, figure)


def _efficiency_gained(runs: Runs, beta: float, without: str | None = None) -> tuple[Difference, str]:
    """Return the difference of the logarithms of both S_E, and how their ratio is written."""
    found = scores(runs, without)
    seeds = GRID[f"union-{beta:g}"].seeds
    values = [
        [max(found[f"{method}-{beta:g}", seed].s_e or 0.0, LEAST_SCORE) for seed in seeds]
        for method in ("union", "ba2")
    ]
    gain = Difference(tuple(math.log(ours / theirs) for ours, theirs in zip(*values, strict=True)))
    means = " against ".join(f"{statistics.fmean(part):.1f}" for part in values)
    ratio = f"{math.exp(gain.mean):.2f} times, 95 % interval {_factor(gain, -1)} to {_factor(gain, 1)}"
    higher = sum(value > 0 for value in gain.values)
    return gain, f"{means} ({ratio}; higher with {higher} of {len(gain.values)} seeds)"


def _factor(gain: Difference, side: int) -> str:
    """Write an end of the interval of a ratio."""
    return f"{math.exp(gain.mean + side * gain.spread):.2f}"


def fewer_macs(runs: Runs, beta: float) -> Finding:
    """The union loss computes less than BA² at a budget below 1."""
    gain = paired(runs, f"ba2-{beta:g}", f"union-{beta:g}", lambda run: run.macs_ratio)
    return by_sign(gain.sign, f"β = {beta:g}: {gain.written(3)} of the backbone's MACs saved")


def _at_least_at_one(beta: float, sign: int, figure: str) -> Finding:
    return decided(sign >= 0, figure) if beta == 1 else by_sign(sign, figure)


def kernels_below_the_budget(runs: Runs, beta: float) -> Finding:
    """With the union loss no domain uses more kernels than the budget allows, with every seed."""
    found = row(runs, f"union-{beta:g}")
    usage = max(max(run.usage.values()) for run in found)
    together = max(run.union for run in found)
    return decided(
        usage <= beta, f"β = {beta:g}: at most {usage:.3f} of the kernels in a domain, and {together:.3f} together"
    )


def macs_below_the_budget(runs: Runs, beta: float) -> Finding:
    """With the union loss the MACs stay below the budget, with every seed."""
    found = row(runs, f"union-{beta:g}")
    macs = [run.macs_ratio for run in found]
    most = max(max(run.domain_macs_ratio.values()) for run in found)
    return decided(max(macs) < beta, f"β = {beta:g}: {_range(macs)} of the MACs, in a domain up to {most:.3f}")


def taps_is_several_backbones(runs: Runs, name: str) -> Finding:
    """TAPS stores more than two backbones, with every seed."""
    params = [run.params_ratio for run in row(runs, name)]
    return decided(min(params) > SEVERAL, f"{name}: {_range(params, 2)} backbones")


def taps_is_as_large(runs: Runs, name: str) -> Finding:
    """TAPS stores as much per domain as in the paper, besides the backbone that all share."""
    found = row(runs, name)
    params, domains = statistics.fmean(run.params_ratio for run in found), len(found[0].accuracies)
    share = (params - 1) / domains
    figure = f"{name}: {params:.2f} backbones for {domains} domains, {share:.2f} for each beside the one that all share"
    return decided(TAPS_PER_DOMAIN[0] <= share <= TAPS_PER_DOMAIN[1], figure)


def taps_is_less_efficient(runs: Runs, name: str) -> Finding:
    """TAPS has a lower S_E than the union loss."""
    found = scores(runs)
    s_e = [
        statistics.fmean(found[other, seed].s_e or 0.0 for seed in GRID[other].seeds) for other in (name, "union-0.25")
    ]
    return decided(s_e[0] < s_e[1], f"{name}: S_E {s_e[0]:.1f} against {s_e[1]:.1f}")


def frozen_others_share_nothing(runs: Runs) -> Finding:
    """If the loss moves only the domains of the batch, there is at most half of the sparsity."""
    frozen, free = (row(runs, name)[0].sparsity for name in ("frozen-others", "learned-union-0.25"))
    return decided(frozen <= free / 2, f"sparsity {100 * frozen:.1f} %, without freezing {100 * free:.1f} %")


def order_is_similar(runs: Runs, name: str, base: str) -> Finding:
    """Taking turns by batches, or mixing batches, is about as accurate as a round robin of epochs: one run of each."""
    run, other = row(runs, name)[0], row(runs, base)[0]
    difference = points(run) - points(other)
    reach = 100 * reach_of_images(run, other)
    figure = f"`{name}`: {difference:+.1f} ± {reach:.1f} points, by the number of images"
    if abs(difference) - reach <= SIMILAR < abs(difference) + reach:
        return Finding(NOISE, (figure,))
    return decided(abs(difference) <= SIMILAR, figure)


def _range(values: Sequence[float], digits: int = 3) -> str:
    return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values))))
