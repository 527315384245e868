"""Draw the images that choose the codings of a domain, and others that measure what they lose.

Legend: N = images, S = side.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prunus.arrays import Bytes, Floats, Integers
from prunus.data.domains import Domain, Item
from prunus.data.loading import REPAIR, load_images
from prunus.errors import DataError
from prunus.images import Preprocess, crop_windows

MOST_BYTES = 2**29  # of the images of all domains that calibrate, and of those that are held out
ELSEWHERE = f"{REPAIR}, or name another folder with the argument data='DIR'"
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
    """Images of one domain. Those to calibrate with are not among the held-out ones.

    Args:
        labels: of the held-out images.
        validation: how many of these are validation images; the network was trained on the others.
    """

    calibration: Pictures
    held_out: Pictures
    labels: Integers
    validation: int = 0


@dataclass(frozen=True)
class Draw:
    """How many images of a domain are drawn, and from which seed."""

    calibration: int = 64
    held_out: int = 512
    seed: int = 0

    def choose(self, domain: Domain) -> tuple[list[Item], list[Item]]:
        """Choose items to calibrate with and items to measure with.

        Validation images measure first, then training images that are not needed to calibrate. At least half of all
        images may measure, since few of them would hide a loss.
        """
        rng = np.random.default_rng((self.seed, *domain.name.encode()))
        train, validation = (_shuffled(items, rng) for items in (domain.train, domain.validation))
        most = (len(train) + len(validation)) // 2 if self.held_out else len(train)
        count = max(1, min(self.calibration, most))
        return train[:count], [*validation, *train[count:]][: self.held_out]


def limited(draw: Draw, side: int, domains: int) -> Draw:
    """Draw fewer images if those of all domains would take too much memory."""
    most = max(1, MOST_BYTES // (domains * 3 * side * side))
    return replace(draw, calibration=min(draw.calibration, most), held_out=min(draw.held_out, most))


def _shuffled(items: Sequence[Item], rng: np.random.Generator) -> list[Item]:
    return [items[index] for index in rng.permutation(len(items))]


def draw_images(domain: Domain, preprocess: Preprocess, draw: Draw, skip_bad: bool, loading: Loading) -> Drawn:
    """Decode and prepare images of a domain, as predictions do."""
    calibration, held_out = draw.choose(domain)
    chosen = [*calibration, *held_out]
    drawn = replace(domain, train=tuple(chosen), validation=(), test=())
    images = load_images(drawn, "train", preprocess, skip_bad, None, loading, remedy=ELSEWHERE)
    is_calibration = np.isin(images.files, [item.file for item in calibration])
    if not is_calibration.any():  # bad images were skipped
        raise DataError(
            f"domain {domain.name!r}: 8-bit numbers are chosen with training images, but none of the "
            f"{len(calibration)} that were drawn can be read; repair them (prunus check names them), or use the "
            "argument dtype='float16'"
        )
    (window,) = crop_windows(preprocess.resize, preprocess.size, 1)
    pixels = preprocess.crop(images.images, *window)
    calibrating, measuring = (Pictures(pixels[rows], preprocess) for rows in (is_calibration, ~is_calibration))
    validation = int(np.isin(images.files, [item.file for item in domain.validation]).sum())
    return Drawn(calibrating, measuring, images.labels[~is_calibration], validation)
