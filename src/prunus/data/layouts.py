"""Open a domain in any of the known layouts of files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from prunus.config import DomainChoice
from prunus.data.domains import Domain, hold_out, open_folders
from prunus.data.folders.listing import list_files
from prunus.data.sources import describe_folder
from prunus.data.visual_decathlon.sets import open_decathlon_set
from prunus.errors import DataError


def open_domain(choice: DomainChoice, validation_share: float = 0.1) -> Domain:
    """List a domain's images and check its classes."""
    return LAYOUTS[choice.layout](choice, validation_share)


def _open_decathlon(choice: DomainChoice, validation_share: float) -> Domain:
    return open_decathlon_set(Path(choice.path), choice.name)


def _open_sketch(choice: DomainChoice, validation_share: float) -> Domain:
    """Open a set of ImageNet-to-Sketch, which has the splits train and test; ImageNet's test split is called val."""
    path = Path(choice.path)
    if not path.is_dir():
        raise DataError(
            f"looked for the set {choice.name!r} of ImageNet-to-Sketch in {path.parent}: {describe_folder(path.parent)}"
        )
    domain = open_folders(choice, validation_share)
    listing = list_files(domain.source)
    has_splits = listing.structure.kind == "splits"  # a share of each class would be another benchmark
    if has_splits and domain.test:
        return domain
    if not has_splits or "validation" not in listing.files:
        raise DataError(f"the set {choice.name!r} ({path}) has no test split: looked for test or val")
    train, validation = hold_out(sorted(domain.train, key=lambda item: item.file), validation_share)
    return replace(domain, train=train, validation=validation, test=domain.validation)


LAYOUTS: dict[str, Callable[[DomainChoice, float], Domain]] = {
    "folders": open_folders,
    "decathlon": _open_decathlon,
    "imagenet_to_sketch": _open_sketch,
}
