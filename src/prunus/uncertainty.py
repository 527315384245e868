"""How far an accuracy may be off because it was measured on few images, or trained with few seeds: 95 % intervals.

The interval of one accuracy is Wilson's (1927), which holds for few images and for accuracies of 0 and 1 too. Means and
differences of independent numbers join the distances to the ends of their intervals as the root of the sum of squares
(Zou and Donner, 2008).
"""

import math
import statistics
from collections.abc import Mapping, Sequence

Interval = tuple[float, float]  # lowest and highest plausible value

Z = 1.959964  # 97.5 % of a normal distribution lie below
# the same for Student's distribution with 1, 2, ... degrees of freedom; for more, the last is a little too large
T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622)


def accuracy_interval(accuracy: float, images: int) -> Interval:
    """Return Wilson's 95 % interval of an accuracy on so many images."""
    spread = Z**2 / images
    centre = (accuracy + spread / 2) / (1 + spread)
    reach = math.sqrt(accuracy * (1 - accuracy) * spread + spread**2 / 4) / (1 + spread)
    return max(0.0, centre - reach), min(1.0, centre + reach)


def mean_interval(accuracies: Mapping[str, float], intervals: Mapping[str, Interval]) -> Interval:
    """Return the interval of the mean over domains, whose images are different ones."""
    mean = statistics.fmean(accuracies.values())
    pairs = [(accuracies[name], interval) for name, interval in intervals.items()]
    below = math.hypot(*(accuracy - low for accuracy, (low, _) in pairs)) / len(pairs)
    above = math.hypot(*(high - accuracy for accuracy, (_, high) in pairs)) / len(pairs)
    return mean - below, mean + above


def seeds_reach(deviation: float, seeds: int) -> float:
    """Return the half width of the 95 % interval of a mean over seeds, by Student's distribution.

    Args:
        deviation: standard deviation of the values.
    """
    return T[min(seeds - 1, len(T)) - 1] * deviation / math.sqrt(seeds)


def over_seeds(values: Sequence[float], intervals: Sequence[Interval]) -> Interval:
    """Return the interval of a mean over seeds: all were measured on the same images, and each was trained anew.

    Args:
        intervals: those of the values, by the number of images.
    """
    mean = statistics.fmean(values)
    trained = seeds_reach(statistics.stdev(values), len(values))
    below = statistics.fmean(value - low for value, (low, _) in zip(values, intervals, strict=True))
    above = statistics.fmean(high - value for value, (_, high) in zip(values, intervals, strict=True))
    return max(0.0, mean - math.hypot(below, trained)), min(1.0, mean + math.hypot(above, trained))


def is_noise(higher: float, higher_interval: Interval, lower: float, lower_interval: Interval) -> bool:
    """Return whether a difference may be chance: whether its 95 % interval contains 0."""
    return higher - lower <= math.hypot(higher - higher_interval[0], lower_interval[1] - lower)
