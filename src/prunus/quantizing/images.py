"""Draw the images that choose the codings of a domain, and others that measure what they lose.

Legend: N = images, S = side.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prunus.arrays import Bytes, Floats, Integers
from prunus.data.domains import Domain, Item
from prunus.data.loading import load_images
from prunus.images import Preprocess, crop_windows

MOST_BYTES = 2**29  # of the held-out images of all domains
Loading = Callable[[str, int, int], None]  # told of a domain, the images done, and all of them


@dataclass(frozen=True)
class Pictures:
    """Images of one domain as bytes, (N, 3, S, S), which take a quarter of the memory of prepared ones."""

    pixels: Bytes
    preprocess: Preprocess

    def __len__(self) -> int:
        return len(self.pixels)

    def prepared(self, batch: int) -> Iterator[Floats]:
        """Return the images as a network takes them, a batch at a time."""
        for start in range(0, len(self), batch):
            yield self.preprocess.normalize(self.pixels[start : start + batch])


@dataclass(frozen=True)
class Drawn:
    """Images of one domain. Those to calibrate with are not among the held-out ones."""

    calibration: Pictures
    held_out: Pictures
    labels: Integers  # of the held-out images


@dataclass(frozen=True)
class Draw:
    """How many images of a domain are drawn, and from which seed."""

    calibration: int = 64
    held_out: int = 512
    seed: int = 0

    def choose(self, domain: Domain) -> tuple[list[Item], list[Item]]:
        """Choose items to calibrate with and items to measure with; the latter are validation images if there are any.

        Training images that are not needed to calibrate fill them up. Without validation images, at least half of the
        training images measure.
        """
        rng = np.random.default_rng((self.seed, *domain.name.encode()))
        train, validation = (_shuffled(items, rng) for items in (domain.train, domain.validation))
        count = min(self.calibration, len(train) if validation else max(1, len(train) // 2))
        return train[:count], [*validation, *train[count:]][: self.held_out]


def limited(draw: Draw, side: int, domains: int) -> Draw:
    """Hold out fewer images if those of all domains would take too much memory."""
    return replace(draw, held_out=min(draw.held_out, max(1, MOST_BYTES // (domains * 3 * side * side))))


def _shuffled(items: Sequence[Item], rng: np.random.Generator) -> list[Item]:
    return [items[index] for index in rng.permutation(len(items))]


def draw_images(domain: Domain, preprocess: Preprocess, draw: Draw, skip_bad: bool, loading: Loading) -> Drawn:
    """Decode and prepare images of a domain, as predictions do."""
    calibration, held_out = draw.choose(domain)
    chosen = [*calibration, *held_out]
    drawn = replace(domain, train=tuple(chosen), validation=(), test=())
    images = load_images(drawn, "train", preprocess, skip_bad, None, loading)
    is_calibration = np.isin(images.files, [item.file for item in calibration])
    (window,) = crop_windows(preprocess.resize, preprocess.size, 1)
    pixels = preprocess.crop(images.images, *window)
    calibrating, measuring = (Pictures(pixels[rows], preprocess) for rows in (is_calibration, ~is_calibration))
    return Drawn(calibrating, measuring, images.labels[~is_calibration])
