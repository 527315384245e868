"""What is prepared before the loop starts: preprocessing, data, versions, notes."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.config import DomainChoice, Recipe
from prunus.errors import DataError, RecipeError
from prunus.images import Preprocess
from prunus.recipes import parse_recipe
from prunus.training.observers import Observer
from prunus.training.run import resume_run, start_run
from prunus.training.setup import resized
from prunus.version import __version__

BACKBONE = Preprocess(size=32, resize=36, mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))


def _recipe(path: Path, **changes: object) -> Recipe:
    domain = {"path": str(path)} | changes
    training = {"epochs": 1, "batch_size": 4}
    return parse_recipe(
        {
            "preset": "paper",
            "backbone": "wrn14_2",
            "domains": [domain],
            "training": training,
            "skip_bad_images": True,
            "method": "feature",
        }
    )


def test_a_domain_may_change_fit_and_size_but_nothing_else() -> None:
    choice = DomainChoice(name="a", path="a", fit="squash", resize=40)
    assert resized(BACKBONE, choice) == BACKBONE.model_copy(update={"fit": "squash", "resize": 40})
    assert resized(BACKBONE, DomainChoice(name="a", path="a")) == BACKBONE


def test_a_size_smaller_than_the_crop_is_refused_by_domain() -> None:
    with pytest.raises(RecipeError, match=r"domain 'a': resize must be at least size \(32\), got 16"):
        resized(BACKBONE, DomainChoice(name="a", path="a", resize=16))


def test_own_statistics_are_those_of_the_domains_training_images(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_domain("flowers", train=3, size=(36, 36), validation=1)
    start_run(_recipe(folder, statistics="own"), tmp_path / "run", device="cpu")
    images = [np.asarray(Image.open(file)) / 255 for file in (folder / "train").rglob("*.png")]
    found = read_checkpoint(tmp_path / "run" / "checkpoint.safetensors").identity.preprocess["flowers"]
    assert found.mean == pytest.approx(np.mean(images, axis=(0, 1, 2)), abs=1e-5)
    assert found.std == pytest.approx(np.std(images, axis=(0, 1, 2)), abs=1e-5)


def test_a_run_that_is_continued_needs_the_image_that_became_unreadable(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_domain("flowers", train=4, validation=1)
    content = _recipe(folder).model_dump(mode="json") | {"skip_bad_images": False}
    start_run(parse_recipe(content), tmp_path / "run", device="cpu", use_cache=False)
    (folder / "train" / "a" / "2.png").write_bytes(b"no image")
    longer = parse_recipe(content | {"training": content["training"] | {"epochs": 2}})
    with pytest.raises(DataError, match=r"; restore it, because a run continues with the images that it began with$"):
        resume_run(tmp_path / "run", device="cpu", recipe=longer, use_cache=False)
    with pytest.raises(DataError, match=r"; fix or remove it, or skip such images with skip_bad_images = true in the"):
        start_run(parse_recipe(content), tmp_path / "new", device="cpu", use_cache=False)


def test_skipped_images_are_noted_and_versions_written(make_domain: Callable[..., Path], tmp_path: Path) -> None:
    notes: list[str] = []

    class Listener(Observer):
        def noted(self, message: str) -> None:
            notes.append(message)

        def loading(self, domain: str, split: str) -> None:
            splits.append((domain, split))

    splits: list[tuple[str, str]] = []
    folder = make_domain("flowers", train=4, validation=1)
    (folder / "train" / "a" / "2.png").write_bytes(b"no image")
    start_run(_recipe(folder), tmp_path / "run", [Listener()], device="cpu")
    assert notes == ["skipped 1 unreadable image of domain 'flowers'"]
    assert splits[:2] == [("flowers", "train"), ("flowers", "validation")]
    versions = json.loads((tmp_path / "run" / "versions.json").read_text())["versions"]
    assert versions == {"prunus": __version__, "torch": version("torch").split("+")[0]}
