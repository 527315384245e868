"""Open a domain, whatever its files look like: one table of layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prunus.config import DomainChoice
from prunus.data.decathlon import open_decathlon_set
from prunus.data.domains import Domain, hold_out, list_files, open_folders
from prunus.data.sources import describe_folder
from prunus.errors import DataError


def open_domain(choice: DomainChoice, validation_share: float = 0.1) -> Domain:
    """List a domain's images, its classes checked."""
    return LAYOUTS[choice.layout](choice, validation_share)


def _open_decathlon(choice: DomainChoice, validation_share: float) -> Domain:
    return open_decathlon_set(Path(choice.path), choice.name)


def _open_sketch(choice: DomainChoice, validation_share: float) -> Domain:
    """Open a set of ImageNet-to-Sketch, which has train and test; ImageNet's own test split is called val."""
    place = Path(choice.path)
    if not place.is_dir():
        holds = f"in {place.parent}: {describe_folder(place.parent)}"
        raise DataError(f"looked for the set {choice.name!r} of ImageNet-to-Sketch {holds}")
    domain = open_folders(choice, validation_share)
    if domain.test:
        return domain
    if "validation" not in list_files(domain.source).files:
        raise DataError(f"the set {choice.name!r} ({place}) has no test split: looked for test or val")
    everything = sorted(domain.train, key=lambda item: item.file)
    train, validation = hold_out(everything, validation_share)
    return replace(domain, train=train, validation=validation, test=domain.validation)


LAYOUTS: dict[str, Callable[[DomainChoice, float], Domain]] = {
    "folders": open_folders,
    "decathlon": _open_decathlon,
    "imagenet_to_sketch": _open_sketch,
}
