"""Classifying a batch: requests of mixed domains together, each with its own answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prunus.arrays import Floats
from prunus.images import read_image
from prunus.serving.computing.ranking import order_classes, ranking_with
from tests.makers.live_service import GatedPredictor, picture, write_model


def test_classes_are_sorted_by_probability_and_ties_by_number() -> None:
    ranking = order_classes(np.log(np.array([0.2, 0.4, 0.2, 0.2], np.float32)))
    assert ranking.classes == [1, 0, 2, 3]
    assert ranking.probabilities == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_a_batch_of_mixed_domains_gets_a_predictors_answers(tmp_path: Path) -> None:
    predictor = GatedPredictor(write_model(tmp_path / "model.prunus"))
    preprocess = predictor.bundle.manifest.domains["birds"].preprocess
    seeds, domains = (1, 2, 3), ["birds", "birds", "flowers"]
    rankings = ranking_with(predictor)([preprocess.store(read_image(picture(seed))) for seed in seeds], domains)
    assert predictor.seen == 3
    for ranking, seed, domain in zip(rankings, seeds, domains, strict=True):
        (expected,) = predictor.predict(picture(seed), domain)
        assert [("x", "y", "z")[number] for number in ranking.classes] == [best.label for best in expected]
        np.testing.assert_allclose(ranking.probabilities, [best.probability for best in expected], atol=1e-6)


@pytest.mark.parametrize("different", [False, True])
def test_images_are_normalized_to_the_same_bits_as_by_a_predictor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, different: bool
) -> None:
    predictor = GatedPredictor(write_model(tmp_path / "model.prunus"))
    entries = predictor.bundle.manifest.domains
    if different:
        other = entries["flowers"].preprocess.model_copy(update={"mean": (0.1, 0.2, 0.3)})
        monkeypatch.setitem(entries, "flowers", entries["flowers"].model_copy(update={"preprocess": other}))
    seen: list[Floats] = []

    def logits(images: Floats, _names: object) -> Floats:
        seen.append(images)
        return np.zeros((len(images), 3), np.float32)

    monkeypatch.setattr(predictor, "logits", logits)
    domains = ["birds", "flowers", "birds"]
    stored = [entries[name].preprocess.store(read_image(picture(seed))) for seed, name in enumerate(domains)]
    ranking_with(predictor)(stored, domains)
    for found, image, name in zip(seen[0], stored, domains, strict=True):
        assert found.dtype == np.float32
        assert found.tobytes() == entries[name].preprocess.normalize(image).tobytes()
