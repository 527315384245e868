"""Runs share classifiers on frozen features if nothing that decides them differs."""

from pathlib import Path

import pytest
import torch

from prunus.checkpoints import known_classifiers as module
from prunus.checkpoints.known_classifiers import known_classifiers
from tests.makers.tiny_training import PREPROCESS, tiny_identity, tiny_recipe


def test_a_classifier_is_shared_only_if_nothing_that_decides_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = tiny_identity(tiny_recipe())
    other_size = PREPROCESS.model_copy(update={"resize": 12})
    cpu = torch.device("cpu")
    file = known_classifiers(tmp_path, identity, cpu)["a"]
    assert known_classifiers(tmp_path, identity, cpu)["a"] == file
    others = [
        identity.model_copy(update={"backbone": "other weights"}),
        identity.model_copy(update={"domains": identity.domains | {"a": "other images"}}),
        identity.model_copy(update={"preprocess": identity.preprocess | {"a": other_size}}),
    ]
    files = {known_classifiers(tmp_path, other, cpu)["a"] for other in others}
    files |= {known_classifiers(tmp_path, identity, torch.device("cuda"))["a"]}
    assert len(files | {file}) == 5
    monkeypatch.setattr(module, "find_own", lambda _name: object())
    assert known_classifiers(tmp_path, identity, cpu) == {}
