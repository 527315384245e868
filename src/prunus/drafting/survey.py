"""Look at domains before there is a recipe: what they hold, how it is sorted, how large the images are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median

from prunus.config import UNMIRRORED, DomainChoice
from prunus.data.domains import SPLITS, Domain
from prunus.data.folders.finding import Place, find_domains
from prunus.data.folders.listing import list_files
from prunus.data.layouts import open_domain
from prunus.errors import DataError, PrunusError
from prunus.images import image_size
from prunus.names import MAX_DOMAIN_NAME

SAMPLED = 48  # images of a domain whose size is read
SIDED = frozenset({"left", "right", "links", "rechts", "gauche", "droite"})  # classes that a mirror exchanges
UNEVEN = 5  # times as many images in the largest class as in the smallest


@dataclass(frozen=True)
class FoundDomain:
    """A domain as it was found.

    Args:
        folder: the name of its folder or zip file.
        images: split -> number of images.
        layout: how its images are sorted, in words.
        has_splits: False for class folders, of which a share is held out for the test.
        side: the median of the shorter sides of its images, in pixels.
        mirrors: whether a mirrored image looks like another image of its class.
        is_uneven: whether some classes have far more images than others.
        example: the path of one of its images; empty for a zip file.
    """

    name: str
    path: str
    folder: str
    classes: int
    images: dict[str, int]
    layout: str
    has_splits: bool
    side: int
    mirrors: bool
    is_uneven: bool
    example: str = ""


@dataclass(frozen=True)
class Survey:
    """All domains that were found, and the reason for each one that is left out."""

    domains: tuple[FoundDomain, ...]
    left_out: tuple[str, ...]


def look_at(paths: Sequence[str | Path]) -> Survey:
    """Find the domains at some paths and look at each of them."""
    found: list[FoundDomain] = []
    left_out: list[str] = []
    for place in _named_apart([place for path in paths for place in find_domains(path)]):
        try:
            found.append(_look(place))
        except PrunusError as error:
            left_out.append(str(error))
    if not found:
        raise DataError(left_out[0] if left_out else "no folder was named; name the folder of your images")
    return Survey(tuple(found), tuple(left_out))


def _named_apart(places: Sequence[Place]) -> list[Place]:
    """Number the domains whose folders lead to the same name."""
    taken: set[str] = set()
    named: list[Place] = []
    for place in places:
        numbered = (place.name if number == 1 else f"{place.name}-{number}" for number in count(1))
        name = next(name for name in numbered if name.lower() not in taken)
        taken.add(name.lower())
        named.append(replace(place, name=name[:MAX_DOMAIN_NAME] if name != place.name else name))
    return named


def _look(place: Place) -> FoundDomain:
    try:
        choice = DomainChoice(name=place.name, path=place.path)
    except ValueError:
        raise DataError(
            f"the folder {place.folder!r} cannot be a domain: its name is longer than {MAX_DOMAIN_NAME} characters or "
            "holds characters that are not accepted; rename it"
        ) from None
    domain = open_domain(choice)
    listing = list_files(domain.source)
    sizes = Counter(item.label for split in SPLITS for item in domain.split(split))
    folder = Path(place.path)
    return FoundDomain(
        place.name,
        place.path,
        place.folder,
        len(domain.classes),
        {split: len(domain.split(split)) for split in SPLITS},
        listing.describe(),
        listing.structure.kind == "splits",
        _usual_side(domain),
        place.name.lower() not in UNMIRRORED and not _changes_when_mirrored(domain.classes),
        max(sizes.values()) >= UNEVEN * min(sizes.values()),
        str(folder / (domain.test or domain.train)[0].file) if folder.is_dir() else "",
    )


def _usual_side(domain: Domain) -> int:
    """Return the median of the shorter sides of some images; unreadable ones do not count."""
    items = [item for split in SPLITS for item in domain.split(split)]
    sides: list[int] = []
    for item in items[:: max(1, len(items) // SAMPLED)]:
        try:
            sides.append(min(image_size(domain.source.read(item.file))))
        except DataError:  # reported by check, and skipped in training
            continue
    return int(median(sides)) if sides else 0


def _changes_when_mirrored(classes: Sequence[str]) -> bool:
    """Return whether class names are letters or digits, or tell left from right."""
    words = [set(name.lower().replace("-", " ").replace("_", " ").split()) for name in classes]
    return all(len(name) == 1 for name in classes) or any(SIDED & names for names in words)
