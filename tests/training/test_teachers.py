"""Who teaches a domain: what validation images say, and what is known of the source where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from prunus.files import write_json
from prunus.learning.frozen_features import LinearClassifier, write_classifiers
from prunus.learning.teaching import Teacher
from prunus.run_folder import ENDING, DomainEnding, Ending, RunFolder
from prunus.training.teachers import make_teacher
from tests.makers.tiny_training import tiny_net

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


def _taught(folder: RunFolder, source: str | None = None, **domains: DomainEnding) -> tuple[Teacher, list[str]]:
    write_json(folder.ending, ENDING.dump_python(Ending(10, domains, 1.0, False), mode="json"))
    notes: list[str] = []
    return make_teacher(tiny_net("finetune"), folder, source, notes.append), notes


def _frozen(folder: RunFolder, source: str | None = None, **domains: DomainEnding) -> list[str]:
    """Return the domains that the backbone teaches, each of which must have a note."""
    teacher, notes = _taught(folder, source, **domains)
    assert len(notes) == len(teacher.frozen)
    return list(teacher.frozen)


def test_the_backbone_teaches_what_it_classifies_clearly_better(folder: RunFolder) -> None:
    teacher, notes = _taught(folder, a=BAD, b=GOOD)
    assert list(teacher.frozen) == ["a"]
    assert torch.equal(teacher.frozen["a"](torch.eye(5)), torch.ones(5, 2))
    assert notes == [
        "domain 'a' is taught by the unchanged backbone with a linear classifier: it classifies 60.2% of the "
        "validation images correctly, the trained teacher 41.0%"
    ]


def test_a_difference_that_may_be_noise_changes_no_teacher(folder: RunFolder) -> None:
    assert _frozen(folder, a=NOISY, b=GOOD) == []
    assert _frozen(folder, a=replace(NOISY, validation_images=10_000), b=GOOD) == ["a"]


def test_without_validation_images_the_backbone_teaches_its_source(folder: RunFolder) -> None:
    teacher, notes = _taught(folder, "b", a=UNKNOWN, b=UNKNOWN)
    assert list(teacher.frozen) == ["b"]
    assert notes[0].startswith("domain 'b' is taught by the unchanged backbone")
    assert "pretrained on this domain" in notes[0]
    assert _frozen(folder, None, a=UNKNOWN, b=UNKNOWN) == []
    assert _frozen(folder, "b", a=UNKNOWN, b=GOOD) == []  # validation images know better


def test_the_run_teaches_everything_without_classifiers_or_an_ending(folder: RunFolder) -> None:
    assert make_teacher(tiny_net("finetune"), folder, "a", pytest.fail).frozen == {}
    folder.frozen_features.unlink()
    assert _frozen(folder, "a", a=BAD, b=UNKNOWN) == []
