"""Classifying a batch: requests of mixed domains together, each with its own answer or refusal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prunus.images import read_image
from prunus.serving.computing.ranking import Job, Ranked, order_classes, ranking_with
from prunus.serving.refusals import Refusal
from prunus.serving.uploads.decoding import Decoded, NotSmall
from tests.makers.live_service import GatedPredictor, picture, write_model


def test_classes_are_sorted_by_probability_and_ties_by_number() -> None:
    ranking = order_classes(np.log(np.array([0.2, 0.4, 0.2, 0.2], np.float32)))
    assert ranking.classes == [1, 0, 2, 3]
    assert ranking.probabilities == pytest.approx([0.4, 0.2, 0.2, 0.2])


def test_a_batch_of_mixed_domains_gets_a_predictors_answers_beside_refusals(tmp_path: Path) -> None:
    predictor = GatedPredictor(write_model(tmp_path / "model.prunus"))
    preprocess = predictor.bundle.manifest.domains["birds"].preprocess

    def decoded(*seeds: int) -> Decoded:
        stored = np.stack([preprocess.store(read_image(picture(seed))) for seed in seeds])
        return Decoded([str(seed) for seed in seeds], list(preprocess.normalize(stored)))

    def refuse() -> Decoded:
        raise Refusal(415, "not an image")

    def too_large() -> Decoded:
        raise NotSmall

    jobs = [
        Job(lambda: decoded(1, 2), "birds"),
        Job(refuse, "birds"),
        Job(lambda: decoded(3), "flowers"),
        Job(too_large, "flowers"),
    ]
    first, refused, second, large = ranking_with(predictor, batch_images=2)(jobs)
    assert predictor.seen == 3
    assert isinstance(refused, Refusal)
    assert refused.__traceback__ is None
    assert isinstance(large, NotSmall)
    for ranked, domain, seeds in ((first, "birds", (1, 2)), (second, "flowers", (3,))):
        assert isinstance(ranked, Ranked)
        assert ranked.names == [str(seed) for seed in seeds]
        for ranking, seed in zip(ranked.rankings, seeds, strict=True):
            expected = predictor.predict(picture(seed), domain)
            assert [("x", "y", "z")[number] for number in ranking.classes] == [best.label for best in expected]
            np.testing.assert_allclose(ranking.probabilities, [best.probability for best in expected], atol=1e-6)
