"""Who teaches a domain: what validation images say, and what is known of the source where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prunus.config import Recipe
from prunus.errors import DamagedFileError, TrainingError
from prunus.files import write_json
from prunus.learning.frozen_features import MOST_IMAGES, LinearClassifier, write_classifiers
from prunus.run_folder import ENDING, DomainEnding, Ending, RunFolder
from prunus.training.teachers import TeachingRun, backbone_teaches, make_teacher, read_reasons
from tests.makers.tiny_training import tiny_net, tiny_recipe

GOOD = DomainEnding(usage=1.0, chance=0.5, validation_images=100, validation_accuracy=0.8, frozen_accuracy=0.7)
BAD = replace(GOOD, validation_accuracy=0.41, frozen_accuracy=0.602)
NOISY = replace(GOOD, validation_accuracy=0.70, frozen_accuracy=0.75)
UNKNOWN = DomainEnding(usage=1.0, chance=0.5)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    classifiers = {
        "a": LinearClassifier(torch.ones(2, 5), torch.zeros(2)),
        "b": LinearClassifier(torch.ones(3, 5), torch.ones(3)),
    }
    write_classifiers(tmp_path / "frozen_features.safetensors", classifiers)
    return RunFolder(tmp_path)


def _reasons(
    folder: RunFolder, source: str | None = None, own: str | None = None, images: int = 100, **domains: DomainEnding
) -> dict[str, str]:
    """Return where the backbone teaches, if the taught recipe has one source and that of the teacher its own."""
    write_json(folder.ending, ENDING.dump_python(Ending(10, domains, 1.0, False), mode="json"))
    run = TeachingRun(tiny_net("finetune"), _recipe(own), folder)
    return backbone_teaches(run, _recipe(source), dict.fromkeys(domains, images))


def _recipe(source: str | None, backbone: str = "wrn14_2") -> Recipe:
    return tiny_recipe(domains=[{"path": name, "source": name == source} for name in ("a", "b")], backbone=backbone)


def test_the_backbone_teaches_what_it_classifies_clearly_better(folder: RunFolder) -> None:
    assert _reasons(folder, a=BAD, b=GOOD) == {
        "a": "60.2% of the validation images are right, and 41.0% with the trained teacher"
    }


def test_a_difference_that_may_be_noise_changes_no_teacher(folder: RunFolder) -> None:
    assert _reasons(folder, a=NOISY, b=GOOD) == {}
    assert list(_reasons(folder, a=replace(NOISY, validation_images=10_000), b=GOOD)) == ["a"]


def test_without_validation_images_the_backbone_teaches_its_source(folder: RunFolder) -> None:
    assert "pretrained on this domain" in _reasons(folder, "b", a=UNKNOWN, b=UNKNOWN)["b"]
    assert list(_reasons(folder, None, "a", a=UNKNOWN, b=UNKNOWN)) == ["a"]  # marked in the teacher's recipe
    assert _reasons(folder, None, a=UNKNOWN, b=UNKNOWN) == {}
    assert _reasons(folder, "b", a=UNKNOWN, b=GOOD) == {}  # validation images know better


def test_the_source_of_another_backbone_is_none_of_the_teacher_s(folder: RunFolder) -> None:
    write_json(folder.ending, ENDING.dump_python(Ending(10, {"a": UNKNOWN}, 1.0, False), mode="json"))
    run = TeachingRun(tiny_net("finetune"), _recipe(None), folder)
    assert list(backbone_teaches(run, _recipe("a"), {"a": 100})) == ["a"]
    assert backbone_teaches(run, _recipe("a", "wrn28_4"), {"a": 100}) == {}


def test_a_source_of_more_images_than_its_classifier_saw_keeps_the_trained_teacher(folder: RunFolder) -> None:
    assert list(_reasons(folder, "a", images=MOST_IMAGES, a=UNKNOWN)) == ["a"]
    assert _reasons(folder, "a", images=MOST_IMAGES + 1, a=UNKNOWN) == {}


def test_without_classifiers_or_an_ending_the_run_teaches_everything(folder: RunFolder) -> None:
    run = TeachingRun(tiny_net("finetune"), _recipe(None), folder)
    assert backbone_teaches(run, _recipe("a"), {"a": 100, "b": 100}) == {}
    folder.frozen_features.unlink()
    assert _reasons(folder, "a", a=UNKNOWN, b=GOOD) == {}


def test_the_backbone_teaches_with_its_own_classifier(folder: RunFolder) -> None:
    run = TeachingRun(tiny_net("finetune"), _recipe(None), folder)
    teacher = make_teacher(run, {"a": "why"})
    assert list(teacher.frozen) == ["a"]
    assert torch.equal(teacher.frozen["a"](torch.eye(5)), torch.ones(5, 2))
    folder.frozen_features.unlink()
    assert make_teacher(run, {}).frozen == {}
    with pytest.raises(TrainingError, match="has no classifier for a, which the backbone of this run teaches; restore"):
        make_teacher(run, {"a": "why"})


def test_a_run_remembers_where_the_backbone_teaches_it(folder: RunFolder) -> None:
    assert read_reasons(folder) is None
    write_json(folder.teachers, {"b": "why"})
    assert read_reasons(folder) == {"b": "why"}
    folder.teachers.write_text("[1")
    with pytest.raises(DamagedFileError, match=r"teachers\.json cannot be read; restore it, or start a new run"):
        read_reasons(folder)
