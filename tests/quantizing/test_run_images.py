"""Images of every domain of a run are drawn from where they were trained on, or from another folder."""

from pathlib import Path

import pytest

import prunus
from prunus.bundle.manifest import DomainEntry
from prunus.config import Recipe
from prunus.errors import DataError
from prunus.images import Preprocess
from prunus.quantizing.images import Draw
from prunus.quantizing.run_images import WAYS, draw_run_images
from tests.conftest import write_domain

PREPROCESS = Preprocess(size=8, resize=8, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
ENTRIES = {name: DomainEntry(classes=("a", "b"), preprocess=PREPROCESS) for name in ("birds", "flowers")}


def _recipe(folder: Path, splits: str = "train") -> Recipe:
    return prunus.parse_recipe(
        {
            "backbone": "wrn14_2",
            "domains": [str(folder / name) for name in ENTRIES],
            "training": {"splits": splits},
        }
    )


def test_images_of_every_domain_are_drawn_here_or_elsewhere(tmp_path: Path) -> None:
    for name in ENTRIES:
        write_domain(tmp_path / "here" / name, train=10)
        write_domain(tmp_path / "there" / name, train=8)
    draw = Draw(calibration=4)
    seen: list[str] = []
    drawn = draw_run_images(_recipe(tmp_path / "here"), ENTRIES, None, draw, lambda name, *_: seen.append(name))
    assert {name: (len(d.calibration), len(d.held_out)) for name, d in drawn.items()} == dict.fromkeys(ENTRIES, (4, 16))
    assert set(seen) == set(ENTRIES)
    moved = draw_run_images(_recipe(tmp_path / "gone"), ENTRIES, tmp_path / "there", draw, lambda *_: None)
    assert len(moved["birds"].held_out) == 12


def test_images_that_were_trained_on_do_not_pass_as_held_out(tmp_path: Path) -> None:
    for name in ENTRIES:
        write_domain(tmp_path / name, train=10)
    drawn = draw_run_images(_recipe(tmp_path, "train+validation"), ENTRIES, None, Draw(), lambda *_: None)
    assert (len(drawn["birds"].calibration), len(drawn["birds"].held_out)) == (10, 10)


def test_missing_images_and_other_classes_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"8-bit numbers are chosen with .*, but there is no folder or zip file .*birds"
    ):
        draw_run_images(_recipe(tmp_path), ENTRIES, None, Draw(), lambda *_: None)
    for name in ENTRIES:
        write_domain(tmp_path / name, classes=("a", "c"))
    with pytest.raises(DataError, match=r"the classes of domain 'birds' in .* are not those the model was trained on"):
        draw_run_images(_recipe(tmp_path), ENTRIES, None, Draw(), lambda *_: None)


def _refused(recipe: Recipe, data: Path | None) -> str:
    with pytest.raises(DataError) as caught:
        draw_run_images(recipe, ENTRIES, data, Draw(), lambda *_: None)
    start, _, rest = str(caught.value).partition(", but ")
    problem, *ways = rest.split("; ")
    assert start == "8-bit numbers are chosen with the training images of every domain"
    assert ways == [WAYS]
    return problem


def test_what_is_wrong_with_moved_images_is_said_once(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path / "gone")
    assert _refused(recipe, tmp_path / "nowhere") == f"there is no folder {tmp_path / 'nowhere'}"
    (tmp_path / "recipe.toml").touch()
    assert _refused(recipe, tmp_path / "recipe.toml") == f"there is no folder {tmp_path / 'recipe.toml'}"
    write_domain(tmp_path / "moved" / "deeper" / "birds")
    moved = tmp_path / "moved"
    assert _refused(recipe, moved) == f"{moved} holds no folder and no zip file of the domain 'birds'"
    (tmp_path / "empty" / "birds" / "train").mkdir(parents=True)
    assert _refused(recipe, tmp_path / "empty") == f"the folder {tmp_path / 'empty' / 'birds' / 'train'} is empty"
    content = recipe.model_dump(mode="json")
    elsewhere = prunus.parse_recipe(content | {"domains": [{"name": "birds", "path": "birds"}]})
    assert _refused(elsewhere, None) == "the model file does not record where those of 'birds' are"


def test_a_domain_that_the_recipe_does_not_name_is_found_by_its_name(tmp_path: Path) -> None:
    for name in ENTRIES:
        write_domain(tmp_path / name, train=8)
    content = _recipe(tmp_path).model_dump(mode="json")
    recipe = prunus.parse_recipe(content | {"domains": content["domains"][:1]})
    assert list(draw_run_images(recipe, ENTRIES, tmp_path, Draw(), lambda *_: None)) == list(ENTRIES)
