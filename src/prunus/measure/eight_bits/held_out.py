"""What 8 bits lose on the images that were held out of each domain."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from prunus.amounts import plural
from prunus.bundle.eight_bits.bounds import Loss, is_within, over_bounds
from prunus.measure.result import Result, Share

MOST_DOMAINS = 10  # that are named
FEW_IMAGES = 100  # of a domain: one of them is a point of accuracy
NEAR_CHANCE = 0.1  # of the way from a guess to no error


class HeldOut(Result):
    """The accuracy of a domain on images that were held out when its codings were chosen.

    Args:
        turned: images that are right only in floats, or only in 8 bits; None if the file does not record it.
        validation: how many are validation images; the network was trained on the others. None as before.
        chance: the accuracy of a guess.
    """

    added = ("turned", "validation", "chance")

    images: int
    floats: Share
    int8: Share
    turned: int | None = None
    validation: int | None = None
    chance: Share = 0

    def right(self) -> tuple[int, int]:
        """Return how many images are right in floats and in 8 bits."""
        return round(self.floats * self.images), round(self.int8 * self.images)

    def loss(self) -> Loss:
        """Return what is lost, without the rounding of the file's shares."""
        floats, coded = self.right()
        return Loss(self.images, floats / max(self.images, 1), coded / max(self.images, 1), self.turned or 0)

    def in_words(self) -> str:
        """Say how many images are right, and how many only in floats or only in 8 bits."""
        floats, coded = self.right()
        turned = "" if self.turned is None else f"; {self.turned:,} in only one of the two"
        return f"{coded:,} of {self.images:,} are right (in floats {floats:,}{turned})"

    @property
    def is_near_chance(self) -> bool:
        """Return whether the network is hardly better than a guess even in floats."""
        return self.floats - self.chance < NEAR_CHANCE * (1 - self.chance)


def are_kept(rows: Mapping[str, HeldOut]) -> bool | None:
    """Return whether no more is lost than allowed; None if that was not measured.

    Files of earlier versions do not record how many images turned.
    """
    if not is_within({name: row.loss() for name, row in rows.items()}):
        return False
    return True if rows and all(row.turned is not None for row in rows.values()) else None


def what_breaks(rows: Mapping[str, HeldOut]) -> str:
    """Say in which domains 8 bits lose too much, and what loses less."""
    over = over_bounds({name: row.loss() for name, row in rows.items()})
    where = _listed([f"{name} ({rows[name].in_words()})" for name in over]) or "the mean over all domains"
    return f"8 bits lose more accuracy than they may in {where}; a file of float16 loses less"


def doubts(rows: Mapping[str, HeldOut]) -> list[str]:
    """Say where the measured accuracies are not certain."""
    few = [f"{name} ({row.images})" for name, row in rows.items() if row.images < FEW_IMAGES]
    near = [
        f"{name} ({_percent(row.floats)} right, by chance {_percent(row.chance)})"
        for name, row in rows.items()
        if row.is_near_chance
    ]
    found = {
        f"fewer than {FEW_IMAGES} images measured what is lost in": few,
        "accuracies decide nothing where the network is close to chance in floats:": near,
    }
    return [f"{text} {_listed(names)}" for text, names in found.items() if names]


def accuracy_in_words(rows: Mapping[str, HeldOut]) -> Iterator[str]:
    """Say how many images of each domain are right, or of those that lose most if there are many."""
    ordered = sorted(rows.items(), key=lambda item: item[1].int8 - item[1].floats)
    worst = {name for name, _ in ordered[:MOST_DOMAINS]}
    if rows:
        before, after = (mean(getattr(row, key) for _, row in ordered) for key in ("floats", "int8"))
        title = "accuracy" if len(rows) == 1 else "mean accuracy"
        yield f"{title} on {_images_in_words(rows)}: {_percent(after)} (in floats {_percent(before)})"
    for name, row in rows.items():
        if name in worst:
            yield f"in {name}, {row.in_words()}"
    if left := len(rows) - len(worst):
        yield f"{plural(left, 'other domain loses', 'other domains lose')} less or nothing"


def _images_in_words(rows: Mapping[str, HeldOut]) -> str:
    """Say which images measured the accuracy: the network was trained on most of them."""
    known = [(row.images, row.validation) for row in rows.values() if row.validation is not None]
    if len(known) < len(rows):
        return "held-out images"
    validation = sum(count for _, count in known)
    training = sum(images for images, _ in known) - validation
    counts = {
        f"{plural(training, 'training image')} that chose no coding": training,
        plural(validation, "validation image"): validation,
    }
    return " and ".join(text for text, count in counts.items() if count)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_DOMAINS
    return ", ".join([*names[:MOST_DOMAINS], *([f"{more} more"] if more > 0 else [])])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
