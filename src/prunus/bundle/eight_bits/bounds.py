"""How much accuracy 8 bits may lose on images that were held out.

Three bounds: the mean over domains, what a domain loses, and how many of a domain's images turn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean

MOST_MEAN_LOSS, MOST_LOSS = 0.003, 0.01  # of accuracy: over all domains, and of any of them
MOST_TURNED = 0.05  # of the images of a domain: what 512 lose then has a standard error of 26**0.5 images, a point
ROUNDING = 1e-9
ONE_IMAGE = 1 + 1e-6
FEW_TURNED = 2  # images, that prove nothing: one each way


@dataclass(frozen=True)
class Loss:
    """The accuracy of one domain on its held-out images, in floats and in 8 bits.

    Args:
        turned: images that are right in only one of the two. What is lost has the standard error √turned, in images:
            with many of them, a small loss is luck that other images do not have.
    """

    images: int
    floats: float
    coded: float
    turned: int = 0

    @property
    def lost(self) -> float:
        """Return by how much the accuracy is lower in 8 bits."""
        return self.floats - self.coded

    @property
    def is_small(self) -> bool:
        """Return whether little accuracy is lost; one image that is lost proves nothing, however few there are."""
        return self.lost <= MOST_LOSS + ROUNDING or self.lost * self.images <= ONE_IMAGE

    @property
    def is_steady(self) -> bool:
        """Return whether so few images turned that others lose about as much."""
        return self.turned <= max(FEW_TURNED, MOST_TURNED * self.images + ROUNDING)


Losses = Mapping[str, Loss]


def is_within(losses: Losses) -> bool:
    """Return whether 8 bits lose little enough, over all domains and in each of them, and not only by luck."""
    return mean_is_kept(losses) and not over_bounds(losses)


def mean_is_kept(losses: Losses) -> bool:
    """Return whether little accuracy is lost over all domains; one image that is lost in all of them proves nothing."""
    if sum(loss.lost * loss.images for loss in losses.values()) <= ONE_IMAGE:
        return True
    return mean(loss.lost for loss in losses.values()) <= MOST_MEAN_LOSS + ROUNDING


def over_bounds(losses: Losses) -> list[str]:
    """Return the domains that lose too much themselves, or only little by luck."""
    return [domain for domain, loss in losses.items() if not (loss.is_small and loss.is_steady)]


def loses_no_more(losses: Losses, others: Losses) -> bool:
    """Return whether no domain loses more than others of the same images say, and not only by luck."""
    return all(
        loss.coded >= others[domain].coded - ROUNDING and (loss.is_steady or loss.turned <= others[domain].turned)
        for domain, loss in losses.items()
    )
