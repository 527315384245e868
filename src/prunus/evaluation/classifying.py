"""Classify the images of every domain of a subject."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prunus.config import DEMO_PREFIX, Crops, DomainChoice
from prunus.data.cache import default_cache
from prunus.data.domains import UNLABELLED, Domain
from prunus.data.layouts import open_domain
from prunus.data.loading import ImageSet, damaged_entry, load_images
from prunus.errors import DataError
from prunus.evaluation.subject import Subject
from prunus.measure.accuracy import Labels, classify, num_crops


@dataclass(frozen=True)
class Answers:
    """The classes that a model predicts for the images of one domain.

    Args:
        crops: how many crops of an image were averaged.
    """

    domain: str
    labels: Labels
    images: ImageSet
    crops: int

    def accuracy(self) -> float:
        """Return the share of images whose predicted class is the labelled one."""
        return float((self.labels == self.images.labels).mean())


def classify_domains(
    subject: Subject,
    split: str,
    data: str | Path | None = None,
    crops: Crops | None = None,
    use_cache: bool = True,
    unlabelled: bool = False,
) -> Iterator[Answers]:
    """Classify a split of every domain.

    Args:
        data: the folder of the domains, or of the benchmark, if it is not where the recipe says.
        crops: how many crops of an image to average (default: the recipe's).
        unlabelled: classify images without labels too; an unreadable image is then an error.
    """
    recipe = subject.recipe
    cache = default_cache() if use_cache else None
    for choice in recipe.domains:
        entry = subject.domains[choice.name]
        domain = open_domain(locate(choice, data), recipe.training.validation_share)
        if domain.classes != entry.classes:
            raise DataError(
                f"the classes of domain {choice.name!r} in {domain.source.path} are not those the model was trained on"
            )
        if not unlabelled:
            _check_labels(domain, split)
        skip_bad = recipe.skip_bad_images and not unlabelled
        images = load_images(domain, split, entry.preprocess, skip_bad, cache)
        if images.was_damaged:
            warnings.warn(damaged_entry(choice.name, split), stacklevel=2)
        count = num_crops(crops or recipe.evaluation.crops, choice.mirrored, entry.preprocess)
        labels = classify(
            subject.classifier(choice.name), images, entry.preprocess, count, recipe.evaluation.batch_size
        )
        yield Answers(choice.name, labels, images, count)


def locate(choice: DomainChoice, data: str | Path | None) -> DomainChoice:
    """Find a domain in the folder `data`, or where the recipe says."""
    if data is not None and choice.layout == "decathlon":
        return choice.model_copy(update={"path": str(data)})
    if data is not None:
        folder = Path(data) / choice.name
        zipped = folder.with_name(f"{choice.name}.zip")
        return choice.model_copy(update={"path": str(zipped if zipped.is_file() else folder)})
    if not choice.path.startswith(DEMO_PREFIX) and not Path(choice.path).is_absolute():
        raise DataError(
            f"the model file does not record where the images of {choice.name!r} are; name their folder with --data DIR"
        )
    return choice


def _check_labels(domain: Domain, split: str) -> None:
    if any(item.label == UNLABELLED for item in domain.split(split)):
        raise DataError(
            f"the {split} images of {domain.name!r} have no labels; write a submission with prunus submit, "
            f"or add the labels as annotations/{domain.name}_test.json"
        )
