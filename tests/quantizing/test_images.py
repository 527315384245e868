"""Images that choose codings never measure them, and a seed chooses the same ones again."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from prunus.cli.wording import on_command_line
from prunus.config import DomainChoice
from prunus.data.domains import Domain
from prunus.data.layouts import open_domain
from prunus.errors import DataError
from prunus.images import Preprocess
from prunus.quantizing.images import MOST_BYTES, Draw, draw_images, limited
from tests.conftest import write_domain

PREPROCESS = Preprocess(size=4, resize=6, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


@pytest.fixture
def domain(tmp_path: Path) -> Domain:
    for label in ("dark", "light"):
        for index in range(20):
            path = tmp_path / "train" / label / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            level = index + (100 if label == "light" else 0)
            Image.fromarray(np.full((6, 6, 3), level, np.uint8)).save(path)
    return open_domain(DomainChoice(name="shades", path=str(tmp_path)), 0.1)


def test_validation_images_measure_first_and_training_images_fill_them_up(domain: Domain) -> None:
    calibration, held_out = Draw(calibration=8, held_out=10).choose(domain)
    assert len(domain.validation) == 4
    assert set(held_out[:4]) == set(domain.validation)
    assert set(held_out[4:]) <= set(domain.train)
    assert (len(calibration), len(held_out)) == (8, 10)
    assert not set(calibration) & set(held_out)
    assert Draw(calibration=8, held_out=10).choose(domain) == (calibration, held_out)
    assert Draw(calibration=8, held_out=10, seed=1).choose(domain)[0] != calibration


def test_without_validation_images_half_of_the_others_measure(domain: Domain) -> None:
    small = replace(domain, train=domain.train[:7], validation=())
    calibration, held_out = Draw().choose(small)
    assert (len(calibration), len(held_out)) == (3, 4)
    assert Draw().choose(replace(small, train=domain.train[:1])) == ([domain.train[0]], [])


@pytest.mark.parametrize(
    ("train", "validation", "expected"),
    [(36, 4, (20, 20)), (36, 0, (18, 18)), (8, 4, (6, 6)), (2, 4, (2, 4)), (1, 4, (1, 4))],
)
def test_at_least_half_of_all_images_measure(
    domain: Domain, train: int, validation: int, expected: tuple[int, int]
) -> None:
    few = replace(domain, train=domain.train[:train], validation=domain.validation[:validation])
    calibration, held_out = Draw().choose(few)
    assert (len(calibration), len(held_out)) == expected
    assert set(few.validation) <= set(held_out)
    alone, none = Draw(held_out=0).choose(few)
    assert (len(alone), none) == (train, [])  # where nothing measures, all may calibrate
    assert alone[: len(calibration)] == calibration


def test_images_are_prepared_as_predictions_prepare_them(domain: Domain) -> None:
    drawn = draw_images(domain, PREPROCESS, Draw(calibration=8, held_out=100), False, lambda *_: None)
    assert len(drawn.calibration) == 8
    assert len(drawn.held_out) == len(drawn.labels) == 32
    assert drawn.validation == 4
    levels = {int(image[0, 0, 0]) for pictures in (drawn.calibration, drawn.held_out) for image in pictures.pixels}
    assert levels == {*range(20), *range(100, 120)}  # every image once
    assert np.array_equal(drawn.held_out.pixels[:, 0, 0, 0] >= 100, drawn.labels == 1)
    (prepared,) = drawn.calibration.prepared(8)
    expected = (drawn.calibration.pixels.astype(np.float32) / 255 - 0.5) / 0.5
    np.testing.assert_allclose(prepared, expected, atol=1e-6)
    assert [len(batch) for batch in drawn.held_out.prepared(20)] == [20, 12]


def test_large_images_are_fewer() -> None:
    assert limited(Draw(held_out=512), 32, 9).held_out == 512
    assert limited(Draw(held_out=512), 224, 10).held_out == 356
    assert limited(Draw(held_out=512), 4096, 1000).held_out == 1


@pytest.mark.parametrize(("side", "domains"), [(32, 9), (224, 10), (224, 100), (224, 1000), (4096, 10)])
def test_the_images_of_all_domains_that_calibrate_have_room(side: int, domains: int) -> None:
    draw = limited(Draw(), side, domains)
    assert 1 <= draw.calibration <= Draw().calibration
    assert draw.calibration == 1 or draw.calibration * domains * 3 * side * side <= MOST_BYTES
    assert limited(Draw(), side, 1 + domains // 10).calibration >= draw.calibration
    assert (draw.calibration == Draw().calibration) is (64 * domains * 3 * side * side <= MOST_BYTES)


def test_a_bad_image_is_named_with_what_can_be_done_about_it_when_a_file_is_written(tmp_path: Path) -> None:
    folder = write_domain(tmp_path / "shades", train=3, validation=4)
    (folder / "train" / "a" / "1.png").write_bytes(b"no image")
    shades = open_domain(DomainChoice(name="shades", path=str(folder)), 0.1)
    with pytest.raises(DataError) as caught:
        draw_images(shades, PREPROCESS, Draw(), False, lambda *_: None)
    said = on_command_line(str(caught.value))
    assert said.startswith("cannot read train/a/1.png of domain 'shades'")
    assert said.endswith("; fix or remove it, or name another folder with --data DIR")


def test_a_domain_whose_training_images_are_all_bad_is_refused(tmp_path: Path) -> None:
    folder = write_domain(tmp_path / "shades", train=3, validation=4)
    shades = open_domain(DomainChoice(name="shades", path=str(folder)), 0.1)
    for item in shades.train:
        (folder / item.file).write_bytes(b"no image")
    with pytest.raises(DataError, match=r"domain 'shades': 8-bit .* none of the 6 that were drawn can be read; repair"):
        draw_images(shades, PREPROCESS, Draw(), True, lambda *_: None)
