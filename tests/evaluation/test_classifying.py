"""Images are found, checked and classified domain by domain."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prunus.arrays import Bytes, Floats
from prunus.bundle.manifest import DomainEntry
from prunus.config import DomainChoice
from prunus.data.own.domain import OwnDomain
from prunus.data.own.passing import passing_domains
from prunus.errors import DataError
from prunus.evaluation.classifying import Answers, Unmeasured, classify_domains, classify_measurable, locate
from prunus.evaluation.subject import Subject
from prunus.evaluation.watching import watched_by
from prunus.images import Preprocess
from prunus.measure.by_class.pictures import small_picture
from prunus.measure.cost import CostReport
from prunus.recipes import parse_recipe
from tests.makers.own_networks import CLASSES, pictures

PREPROCESS = Preprocess(size=8, resize=8, mean=(0, 0, 0), std=(1, 1, 1))


def _subject(*folders: Path, classes: tuple[str, ...] = ("a", "b"), **changes: object) -> Subject:
    """A model that always answers with the second class."""
    recipe = parse_recipe({"backbone": "wrn14_2", "domains": [str(folder) for folder in folders], **changes})
    entries = {folder.name: DomainEntry(classes=classes, preprocess=PREPROCESS) for folder in folders}

    def classifier(images: Bytes, preprocess: Preprocess, crops: int) -> Floats:
        return np.tile(np.array([0.0, 1.0], np.float32), (len(images), 1))

    return Subject(recipe, entries, lambda _domain: classifier, CostReport((), (), ()), (1, 1), 0, None)


def test_every_domain_is_classified_with_its_images(make_domain: Callable[..., Path]) -> None:
    first, second = make_domain("one", test=3), make_domain("two", test=1)
    answers = list(classify_domains(_subject(first, second), "test"))
    assert [answer.domain for answer in answers] == ["one", "two"]
    assert answers[0].labels.tolist() == [1] * 6
    assert answers[0].images.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert [answer.accuracy() for answer in answers] == [0.5, 0.5]
    assert [answer.crops for answer in answers] == [1, 1]


def test_who_watches_learns_how_many_images_are_decoded_and_classified(make_domain: Callable[..., Path]) -> None:
    steps: list[tuple[str, str, int, int]] = []
    subject = _subject(make_domain("one", test=3))
    with watched_by(lambda *step: steps.append(step)):
        list(classify_domains(subject, "test", use_cache=False))
    assert steps[-2:] == [("decoding", "one", 6, 6), ("classifying", "one", 6, 6)]


def test_results_by_class_name_the_files_of_the_mistakes_and_show_them(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("one", test=3)
    (folder / "test" / "a" / "1.png").write_bytes(b"no image")
    (answer,) = classify_domains(_subject(folder, skip_bad_images=True), "test", use_cache=False)
    assert answer.by_class is not None
    assert answer.by_class.matrix() == [[0, 2], [0, 3]]
    mistakes = answer.by_class.mistakes
    assert [mistake.file for mistake in mistakes] == ["test/a/0.png", "test/a/2.png"]
    assert {(mistake.truth, mistake.predicted, mistake.probability) for mistake in mistakes} == {("a", "b", 1.0)}
    assert mistakes[1].picture == small_picture(answer.images.images[1])


def test_a_split_is_read_and_crops_come_from_the_recipe_or_the_caller(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("one", train=5, test=1)
    subject = _subject(folder, evaluation={"crops": 5})
    entry = DomainEntry(classes=("a", "b"), preprocess=PREPROCESS.model_copy(update={"resize": 10}))
    subject = replace(subject, domains={"one": entry})
    (answer,) = classify_domains(subject, "test")
    assert answer.crops == 5
    (answer,) = classify_domains(subject, "test", crops=10)
    assert answer.crops == 10
    (answer,) = classify_domains(subject, "train")
    assert len(answer.images) > 2


def test_a_domain_without_images_in_the_split_is_skipped_and_the_others_are_measured(
    make_domain: Callable[..., Path],
) -> None:
    subject = _subject(make_domain("none", test=0), make_domain("two", test=1))
    empty, measured = classify_measurable(subject, "test")
    assert isinstance(empty, Unmeasured)
    assert empty.domain == "none"
    assert "domain 'none'" in empty.reason
    assert "has no test images; add some as test/<class>/<image>" in empty.reason
    assert isinstance(measured, Answers)
    assert (measured.domain, len(measured.images)) == ("two", 2)
    with pytest.raises(DataError, match="has no test images"):  # a submission needs every image
        list(classify_domains(subject, "test", unlabelled=True))


def test_a_damaged_image_is_no_reason_to_skip_a_domain(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("one", test=2)
    (folder / "test" / "a" / "0.png").write_bytes(b"no image")
    with pytest.raises(DataError):
        list(classify_measurable(_subject(folder), "test", use_cache=False))


def test_other_classes_than_the_models_are_refused(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("one", classes=("a", "c"))
    with pytest.raises(DataError, match=r"the classes of domain 'one' in .*one are not those the model was trained on"):
        list(classify_domains(_subject(folder), "test"))


def test_unreadable_images_are_skipped_only_where_the_recipe_and_the_task_allow_it(
    make_domain: Callable[..., Path],
) -> None:
    folder = make_domain("one", test=2)
    (folder / "test" / "a" / "0.png").write_bytes(b"no image")
    (answer,) = classify_domains(_subject(folder, skip_bad_images=True), "test", use_cache=False)
    assert (len(answer.images), len(answer.images.skipped)) == (3, 1)
    with pytest.raises(DataError, match=r"; fix or remove it$"):  # what was trained has its recipe
        list(classify_domains(_subject(folder), "test", use_cache=False))
    with pytest.raises(DataError, match=r"; fix it, because every image needs an answer$"):
        list(classify_domains(_subject(folder, skip_bad_images=True), "test", use_cache=False, unlabelled=True))


def test_a_domain_from_python_is_found_in_what_was_passed_or_in_the_folder(tmp_path: Path) -> None:
    choice = DomainChoice(name="shades", path="python:shades")
    (tmp_path / "shades").mkdir()
    assert locate(choice, None) == choice
    assert locate(choice, tmp_path).path == str(tmp_path / "shades")
    with passing_domains({"shades": OwnDomain(pictures(4), classes=CLASSES)}):
        assert locate(choice, tmp_path) == choice


def test_a_folder_with_data_is_looked_at_first(tmp_path: Path) -> None:
    choice = DomainChoice(name="birds", path="/elsewhere/birds")
    (tmp_path / "birds").mkdir()
    assert locate(choice, None) == choice
    assert locate(choice, tmp_path).path == str(tmp_path / "birds")
    (tmp_path / "birds.zip").write_bytes(b"")
    assert locate(choice, tmp_path).path == str(tmp_path / "birds.zip")
    benchmark = choice.model_copy(update={"layout": "decathlon"})
    assert locate(benchmark, tmp_path).path == str(tmp_path)
    (tmp_path / "My Art").mkdir()
    assert locate(DomainChoice(name="My-Art", path="x"), tmp_path).path == str(tmp_path / "My Art")


def test_a_path_that_a_model_file_does_not_record_must_be_named() -> None:
    with pytest.raises(DataError, match="the images of 'birds' are; name their folder with the argument data='DIR'"):
        locate(DomainChoice(name="birds", path="birds"), None)
    assert locate(DomainChoice(name="signs", path="demo:signs"), None).path == "demo:signs"


def test_a_folder_that_lacks_a_domain_is_named_as_it_is_when_8_bits_need_its_images(tmp_path: Path) -> None:
    (tmp_path / "signs").mkdir()
    missing = f"{tmp_path} holds no folder and no zip file of the domain 'birds'"
    with pytest.raises(DataError, match=rf"^{re.escape(missing)}; name the folder that holds the domains$"):
        locate(DomainChoice(name="birds", path="demo:birds"), tmp_path)


def test_a_missing_folder_of_domains_is_named_itself(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no folder .*gone; name the folder that holds the domains"):
        locate(DomainChoice(name="birds", path="birds"), tmp_path / "gone")
