"""Classify the images of every domain of a subject."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunus.config import NO_FOLDERS, PYTHON_PREFIX, Crops, DomainChoice
from prunus.data.cache import default_cache
from prunus.data.domains import UNLABELLED, Domain
from prunus.data.layouts import open_domain
from prunus.data.loading import REPAIR, ImageSet, damaged_entry, load_images
from prunus.data.own.passing import is_passed
from prunus.errors import DataError
from prunus.evaluation.subject import Subject
from prunus.evaluation.watching import classifying, decoding
from prunus.measure.accuracy import Classified, Labels, classify, num_crops
from prunus.measure.by_class.confusion import ByClass, count_classes, surest_mistakes
from prunus.measure.by_class.pictures import small_picture
from prunus.names import domain_name

NAME_FOLDER = "name the folder that holds the domains"


@dataclass(frozen=True)
class Answers:
    """The classes that a model predicts for the images of one domain.

    Args:
        crops: how many crops of an image were averaged.
        by_class: the results of every class; None if the images have no labels.
    """

    domain: str
    labels: Labels
    images: ImageSet
    crops: int
    by_class: ByClass | None = None

    def accuracy(self) -> float:
        """Return the share of images whose predicted class is the labelled one."""
        return float((self.labels == self.images.labels).mean())


@dataclass(frozen=True)
class Unmeasured:
    """A domain that cannot be measured, and why."""

    domain: str
    reason: str


class _NothingToMeasureError(DataError):
    """A domain without labelled images in a split."""


@dataclass(frozen=True)
class _Task:
    """What to classify, and how."""

    subject: Subject
    split: str
    data: str | Path | None
    crops: Crops | None
    cache: Path | None
    unlabelled: bool

    def answer(self, choice: DomainChoice) -> Answers:
        """Classify the images of one domain."""
        recipe = self.subject.recipe
        entry = self.subject.domains[choice.name]
        domain = open_domain(locate(choice, self.data), recipe.training.validation_share)
        if domain.classes != entry.classes:
            raise DataError(
                f"the classes of domain {choice.name!r} in {domain.source.path} are not those the model was trained on"
            )
        if not self.unlabelled:
            _check_labels(domain, self.split)
        skip_bad = recipe.skip_bad_images and not self.unlabelled
        remedy = "fix it, because every image needs an answer" if self.unlabelled else REPAIR
        images = load_images(domain, self.split, entry.preprocess, skip_bad, self.cache, decoding(), remedy=remedy)
        if images.was_damaged:
            warnings.warn(damaged_entry(choice.name, self.split), stacklevel=2)
        count = num_crops(self.crops or recipe.evaluation.crops, choice.mirrored, entry.preprocess)
        classifier = classifying(self.subject.classifier(choice.name), choice.name, len(images))
        found = classify(classifier, images, entry.preprocess, count, recipe.evaluation.batch_size)
        by_class = None if self.unlabelled else _by_class(domain.classes, images, found)
        return Answers(choice.name, found.labels, images, count, by_class)


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
    task = _Task(subject, split, data, crops, default_cache() if use_cache else None, unlabelled)
    for choice in subject.recipe.domains:
        yield task.answer(choice)


def classify_measurable(
    subject: Subject,
    split: str,
    data: str | Path | None = None,
    crops: Crops | None = None,
    use_cache: bool = True,
) -> Iterator[Answers | Unmeasured]:
    """Classify a split of every domain that has labelled images in it, and yield why the others are skipped."""
    task = _Task(subject, split, data, crops, default_cache() if use_cache else None, unlabelled=False)
    for choice in subject.recipe.domains:
        try:
            yield task.answer(choice)
        except _NothingToMeasureError as error:
            yield Unmeasured(choice.name, str(error))


def _by_class(classes: Sequence[str], images: ImageSet, found: Classified) -> ByClass:
    def describe(image: int) -> tuple[str, str]:
        return images.files[image], small_picture(images.images[image])

    mistakes = surest_mistakes(classes, images.labels, found.labels, found.probabilities, describe)
    return count_classes(classes, images.labels, found.labels).model_copy(update={"mistakes": mistakes})


def locate(choice: DomainChoice, data: str | Path | None) -> DomainChoice:
    """Find a domain in what was passed from Python, in the folder `data`, or where the recipe says."""
    if choice.path.startswith(PYTHON_PREFIX) and is_passed(choice.path.removeprefix(PYTHON_PREFIX)):
        return choice
    if data is not None and choice.layout == "decathlon":
        return choice.model_copy(update={"path": str(data)})
    if data is not None:
        if not Path(data).is_dir():
            raise DataError(f"there is no folder {data}; {NAME_FOLDER}")
        folder = Path(data) / choice.name
        zipped = folder.with_name(f"{choice.name}.zip")
        named = zipped if zipped.is_file() else folder
        found = named if named.exists() else next(_called(choice.name, Path(data)), None)
        if found is None:
            raise DataError(f"{holds_no_domain(data, choice.name)}; {NAME_FOLDER}")
        return choice.model_copy(update={"path": str(found)})
    if not choice.path.startswith(NO_FOLDERS) and not Path(choice.path).is_absolute():
        raise DataError(
            f"the model file does not record where the images of {choice.name!r} are; "
            "name their folder with the argument data='DIR'"
        )
    return choice


def holds_no_domain(data: str | Path, name: str) -> str:
    """Say that a folder of domains lacks one."""
    return f"{data} holds no folder and no zip file of the domain {name!r}"


def _called(name: str, data: Path) -> Iterator[Path]:
    """Yield the folders and zip files whose names lead to the name of a domain, as "My Art" does to "My-Art"."""
    entries = sorted(data.iterdir()) if data.is_dir() else []
    return (entry for entry in entries if domain_name(entry.name) == name)


def _check_labels(domain: Domain, split: str) -> None:
    items = domain.split(split)
    if not items:
        raise _NothingToMeasureError(
            f"domain {domain.name!r} has no {split} images; "
            f"add some as {split}/<class>/<image>, or measure on another split"
        )
    if any(item.label == UNLABELLED for item in items):
        raise _NothingToMeasureError(
            f"the {split} images of {domain.name!r} have no labels; write a submission with prunus submit, "
            f"or add the labels as annotations/{domain.name}_test.json"
        )
