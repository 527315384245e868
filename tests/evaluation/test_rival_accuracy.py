"""Other engines are measured on the same images as a model file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prunus.arrays import Floats
from prunus.bundle.manifest import DomainEntry
from prunus.data.layouts import open_domain
from prunus.data.loading import ImageSet, load_images
from prunus.evaluation.rival_accuracy import engine_accuracies, training_images
from prunus.evaluation.subject import Subject
from prunus.images import Preprocess
from prunus.measure.cost import CostReport
from prunus.probabilities import Logits
from prunus.recipes import parse_recipe

PREPROCESS = Preprocess(size=6, resize=8, mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2))


def _subject(*folders: Path) -> Subject:
    recipe = parse_recipe({"backbone": "wrn14_2", "domains": [str(folder) for folder in folders]})
    entries = {folder.name: DomainEntry(classes=("a", "b"), preprocess=PREPROCESS) for folder in folders}

    def no_classifier(domain: str) -> None:
        raise AssertionError(f"the file itself classified {domain}")

    return Subject(recipe, entries, no_classifier, CostReport((), (), ()), (1, 1), 0, None)  # type: ignore[arg-type]


def _stored(folder: Path) -> ImageSet:
    return load_images(open_domain(_subject(folder).recipe.domains[0], 0.1), "train", PREPROCESS)


def _always(number: int) -> Logits:
    return lambda images: np.tile(np.eye(2, dtype=np.float32)[number], (len(images), 1))


def _by_colour(folder: Path) -> Logits:
    """Return logits that are right: the distance to the mean colour of each class."""
    stored = _stored(folder)
    pixels = PREPROCESS.normalize(stored.images).mean((2, 3))
    centres = np.stack([pixels[stored.labels == label].mean(0) for label in range(2)])

    def logits(images: Floats) -> Floats:
        assert images.shape[1:] == (3, 6, 6)
        distances: Floats = -((images.mean((2, 3))[:, None] - centres) ** 2).sum(2)
        return distances

    return logits


def test_every_engine_classifies_the_test_images_of_its_domains(make_domain: Callable[..., Path]) -> None:
    one, two = make_domain("one", train=3, test=3), make_domain("two", train=3, test=2)
    engines = {("good", "one"): _by_colour(one), ("bad", "one"): _always(1), ("bad", "two"): _always(0)}
    found = engine_accuracies(_subject(one, two), engines, None)
    assert found == {("good", "one"): 1.0, ("bad", "one"): 0.5, ("bad", "two"): 0.5}


def test_domains_without_test_images_and_engines_without_domains_are_left_out(
    make_domain: Callable[..., Path],
) -> None:
    none, two = make_domain("none", train=3, test=0), make_domain("two", train=3, test=2)
    engines = {("engine", "none"): _always(0), ("engine", "two"): _always(0)}
    assert engine_accuracies(_subject(none, two), engines, none.parent) == {("engine", "two"): 0.5}
    assert engine_accuracies(_subject(none, two), {}, None) == {}


@pytest.mark.parametrize(("count", "places"), [(100, range(8)), (3, (0, 4, 7)), (1, (0,))])
def test_training_images_are_spread_evenly_and_prepared(
    count: int, places: tuple[int, ...], make_domain: Callable[..., Path]
) -> None:
    folder, other = make_domain("one", train=4, validation=2, test=1), make_domain("two", train=1)
    found = training_images(_subject(folder, other), ["one"], None, count)
    assert set(found) == {"one"}
    stored = _stored(folder)
    expected = (stored.images[list(places), :, 1:7, 1:7] / 255 - 0.5) / 0.2
    np.testing.assert_allclose(found["one"], expected, rtol=1e-5, atol=1e-6)
