"""Classifying a batch: requests of mixed domains together, each with its own answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prunus.images import read_image
from prunus.serving.computing.ranking import Job, Ranked, order_classes, ranking_with
from prunus.serving.uploads.messages import Decoded
from tests.makers.live_service import GatedPredictor, picture, write_model


def test_classes_are_sorted_by_probability_and_ties_by_number() -> None:
    ranking = order_classes(np.log(np.array([0.2, 0.4, 0.2, 0.2], np.float32)))
    assert ranking.classes == [1, 0, 2, 3]
    assert ranking.probabilities == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_a_batch_of_mixed_domains_gets_a_predictors_answers(tmp_path: Path) -> None:
    predictor = GatedPredictor(write_model(tmp_path / "model.prunus"))
    preprocess = predictor.bundle.manifest.domains["birds"].preprocess

    def decoded(*seeds: int) -> Decoded:
        stored = [preprocess.store(read_image(picture(seed))) for seed in seeds]
        return Decoded([str(seed) for seed in seeds], [preprocess.normalize(image) for image in stored])

    jobs = [Job(decoded(1, 2), "birds"), Job(decoded(), "birds"), Job(decoded(3), "flowers")]
    first, empty, second = ranking_with(predictor, batch_images=2)(jobs)
    assert predictor.seen == 3
    assert empty == Ranked([], [])
    for ranked, domain, seeds in ((first, "birds", (1, 2)), (second, "flowers", (3,))):
        assert isinstance(ranked, Ranked)
        assert ranked.names == [str(seed) for seed in seeds]
        for ranking, seed in zip(ranked.rankings, seeds, strict=True):
            (expected,) = predictor.predict(picture(seed), domain)
            assert [("x", "y", "z")[number] for number in ranking.classes] == [best.label for best in expected]
            np.testing.assert_allclose(ranking.probabilities, [best.probability for best in expected], atol=1e-6)
