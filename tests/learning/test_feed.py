"""Batches of one domain, against crops cut one by one."""

import numpy as np
import pytest
import torch

from prunus.data.loading import ImageSet
from prunus.images import Preprocess
from prunus.learning.feed import (
    AugmentedFeed,
    DomainData,
    Feed,
    ResidentFeed,
    SentFeed,
    StepJob,
    balanced_weights,
    drawing,
    make_feeds,
)
from tests.makers.tiny_training import tiny_recipe

PREPROCESS = Preprocess(size=5, resize=8, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
CPU = torch.device("cpu")


def _data(mirror: bool = True, count: int = 12) -> DomainData:
    rng = np.random.default_rng(0)
    images = ImageSet(rng.integers(0, 256, (count, 3, 8, 8), np.uint8), np.arange(count) % 3)
    return DomainData("a", PREPROCESS, mirror, images, None)


JOB = StepJob(0, 1, ())


@pytest.mark.parametrize("kind", [ResidentFeed, SentFeed])
def test_every_image_of_a_batch_is_a_window_of_its_own_image(kind: type[Feed]) -> None:
    data = _data()
    feed = kind(0, data, CPU, False)
    indices = np.array([3, 3, 7, 0])
    batch = feed.batch(feed.draw(indices, JOB, torch.Generator().manual_seed(1)))
    assert batch.labels.tolist() == data.train.labels[indices].tolist()
    for image, index in zip(batch.images.numpy(), indices, strict=True):
        stored = data.train.images[index]
        windows = [
            PREPROCESS.normalize(view[None, :, top : top + 5, left : left + 5])[0]
            for view in (stored, stored[:, :, ::-1])
            for top in range(4)
            for left in range(4)
        ]
        assert sum(np.array_equal(image, window) for window in windows) >= 1


def test_resident_images_make_the_same_batch_as_images_sent_by_the_host() -> None:
    data = _data()
    batches = []
    for kind in (ResidentFeed, SentFeed):
        feed = kind(0, data, CPU, False)
        batches.append(feed.batch(feed.draw(np.arange(6), JOB, torch.Generator().manual_seed(3))))
    assert torch.equal(batches[0].images, batches[1].images)
    assert torch.equal(batches[0].labels, batches[1].labels)


def test_a_domain_that_is_not_mirrored_never_is() -> None:
    feed = ResidentFeed(0, _data(mirror=False), CPU, False)
    crops_B3 = feed.draw(np.zeros(200, np.int64), JOB, torch.Generator().manual_seed(0))[1]
    assert not crops_B3[:, 2].any()
    assert set(crops_B3[:, :2].flatten().tolist()) == {0, 1, 2, 3}


def test_the_same_job_draws_the_same_crops_and_another_seed_others() -> None:
    draw = drawing(make_feeds([_data(), _data()], CPU, tiny_recipe()))
    parts = ((0, np.arange(4)), (1, np.arange(5)))
    first, again, other = (draw(StepJob(seed, 1, parts)) for seed in (1, 1, 2))
    for ours, same, different in zip(first, again, other, strict=True):
        assert torch.equal(ours[1], same[1])
        assert not torch.equal(ours[1], different[1])


def test_balanced_classes_have_equal_weight_and_a_mean_of_one() -> None:
    labels = np.array([0] * 6 + [1] * 3 + [2])
    weights = balanced_weights(labels).numpy()
    totals = [weights[k] * (labels == k).sum() for k in range(3)]
    np.testing.assert_allclose(totals, 10 / 3, rtol=1e-6)
    assert weights[labels].mean() == pytest.approx(1)
    recipe = tiny_recipe(training={"class_weights": "balanced"})
    (feed,) = make_feeds([_data()], CPU, recipe)
    weighted = feed.batch(feed.draw(np.arange(3), JOB, torch.Generator().manual_seed(0))).class_weights
    assert weighted is not None
    assert weighted.tolist() == [1.0, 1.0, 1.0]


def test_policies_augment_an_image_the_same_in_any_batch_of_its_step() -> None:
    (feed,) = make_feeds([_data()], CPU, tiny_recipe(training={"augment": ["rand_augment", "random_resized_crop"]}))
    assert isinstance(feed, AugmentedFeed)
    generator = torch.Generator()
    whole = feed.batch(feed.draw(np.arange(6), StepJob(0, 4, ()), generator))
    part = feed.batch(feed.draw(np.array([5, 2]), StepJob(0, 4, ()), generator))
    later = feed.batch(feed.draw(np.array([5, 2]), StepJob(0, 5, ()), generator))
    assert whole.images.shape == (6, 3, 5, 5)
    assert torch.equal(whole.images[[5, 2]], part.images)
    assert not torch.equal(later.images, part.images)
    assert part.labels.tolist() == [2, 2]
