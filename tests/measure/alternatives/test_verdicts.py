"""Means, errors and verdicts, against numbers that were computed by hand."""

import math
import random
import statistics

import numpy as np
import pytest

from prunus.measure.alternatives.verdicts import judge, noise, summarize
from tests.makers.versus_results import IMAGES, row, versus

RIVAL = row("lora", 0, 0.8, 5000, 2.0)


def test_a_summary_is_the_mean_over_domains_and_seeds() -> None:
    results = versus([row("ours", 0, 0.7, 1000, 1.0), row("ours", 1, 0.8, 3000, 2.0)])
    (summary,) = summarize(results)
    assert summary.mean_accuracy == pytest.approx(0.75)
    assert summary.accuracies == pytest.approx({"birds": 0.85, "flowers": 0.65})
    assert summary.spread == pytest.approx(0.1 / math.sqrt(2))
    assert (summary.total_bytes, summary.macs, summary.seeds) == (2000, 20, 2)
    assert summary.milliseconds == pytest.approx(1.5)
    assert summary.is_ours


def test_the_error_of_one_seed_is_that_of_drawing_images() -> None:
    """Draw the correct answers of both domains again and again: their means scatter by the error."""
    (summary,) = summarize(versus([RIVAL]))
    assert summary.spread is None
    generator = random.Random(0)
    means = [
        statistics.fmean(
            sum(generator.random() < share for _ in range(IMAGES[domain])) / IMAGES[domain]
            for domain, share in RIVAL.accuracies.items()
        )
        for _ in range(2000)
    ]
    assert summary.error == pytest.approx(statistics.stdev(means), rel=0.08)


def test_seeds_add_the_error_of_their_mean() -> None:
    alone = summarize(versus([row("lora", 0, 0.75, 1, 1.0)]))[0]
    several = summarize(versus([row("lora", seed, 0.75 + 0.03 * (seed - 1), 1, 1.0) for seed in range(3)]))[0]
    assert several.error == pytest.approx(math.sqrt(alone.error**2 + 0.03**2 / 3))


def test_the_same_seeds_are_paired_and_others_are_not() -> None:
    means = {"ours": (0.70, 0.75, 0.80), "lora": (0.69, 0.71, 0.76)}
    rows = [
        row(name, seed, mean, 1, 1.0).model_copy(update={"correct": {domain: "1" * n for domain, n in IMAGES.items()}})
        for name, found in means.items()
        for seed, mean in enumerate(found)
    ]
    ours, lora = summarize(versus(rows))
    # three seeds have two degrees of freedom: Student's 4.30 instead of the normal distribution's 1.96
    differences = [mine - theirs for mine, theirs in zip(*means.values(), strict=True)]
    assert noise(ours, lora) == pytest.approx(4.3027 * statistics.stdev(differences) / math.sqrt(3))
    later = [other.model_copy(update={"seed": other.seed + 1}) for other in rows if other.name == "lora"]
    ours, lora = summarize(versus([*rows[:3], *later]))
    spreads = [statistics.stdev(found) for found in means.values()]
    assert noise(ours, lora) == pytest.approx(4.3027 * math.hypot(*spreads) / math.sqrt(3))


def test_noise_is_how_much_a_difference_scatters_when_images_are_drawn_again() -> None:
    generator = np.random.default_rng(0)
    answers = {
        name: {domain: (generator.random(count) < share).astype(int) for domain, count in IMAGES.items()}
        for name, share in (("lora", 0.7), ("ours", 0.8))
    }
    rows = [
        RIVAL.model_copy(
            update={"name": name, "correct": {key: "".join(map(str, bits)) for key, bits in found.items()}}
        )
        for name, found in answers.items()
    ]
    differences = []
    for _ in range(2000):
        chosen = {domain: generator.integers(0, count, count) for domain, count in IMAGES.items()}
        means = {name: np.mean([bits[key][chosen[key]].mean() for key in IMAGES]) for name, bits in answers.items()}
        differences.append(means["ours"] - means["lora"])
    one, other = summarize(versus(rows))
    assert noise(one, other) == pytest.approx(1.96 * np.std(differences), rel=0.08)


def test_the_best_of_ours_that_costs_no_more_is_compared() -> None:
    rows = [RIVAL, row("ours", 0, 0.84, 4000, 3.0), row("ours_int8", 0, 0.6, 1000, 1.0)]
    by_bytes = judge(summarize(versus(rows)), "total_bytes")[0]
    by_time = judge(summarize(versus(rows)), "milliseconds")[0]
    assert (by_bytes.ours, by_time.ours) == ("ours", "ours_int8")
    assert by_bytes.difference == pytest.approx(0.04)
    assert not by_bytes.is_noise
    assert by_time.difference == pytest.approx(-0.2)
    assert not by_time.is_noise


def test_nothing_of_ours_may_be_cheap_enough() -> None:
    (verdict,) = judge(summarize(versus([RIVAL, row("ours", 0, 0.9, 6000, 3.0)])), "total_bytes")
    assert (verdict.rival, verdict.ours) == ("lora", None)
