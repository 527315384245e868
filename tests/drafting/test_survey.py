"""What is found in folders of images before there is a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from prunus.drafting.survey import look_at
from prunus.errors import DataError
from tests.makers.folder_names import numbered, write_files


def test_counts_layout_and_sizes_of_every_domain_are_found(tmp_path: Path) -> None:
    write_files(tmp_path, numbered({"My Art/pop": 10, "My Art/cubism": 10, "signs/train/a": 5, "signs/train/b": 5}))
    write_files(tmp_path, numbered({"signs/val/a": 2, "signs/val/b": 2}))
    art, signs = look_at([tmp_path]).domains
    assert (art.name, art.folder, art.classes, art.has_splits) == ("My-Art", "My Art", 2, False)
    assert art.images == {"train": 14, "validation": 2, "test": 4}
    assert signs.images == {"train": 10, "validation": 4, "test": 0}
    assert (art.side, signs.side) == (8, 8)  # wide images are not met here
    assert "class folders without splits" in art.layout
    assert signs.layout == "split folders train, val"
    assert Path(art.example).is_file()


def test_the_shorter_side_counts_and_unreadable_images_do_not(tmp_path: Path) -> None:
    write_files(tmp_path / "d", numbered({"a": 6, "b": 6}))
    for path in (tmp_path / "d" / "a").iterdir():
        Image.new("RGB", (300, 100)).save(path)
    for path in (tmp_path / "d" / "b").iterdir():
        path.write_bytes(b"no image")
    assert look_at([tmp_path / "d"]).domains[0].side == 100


@pytest.mark.parametrize(
    ("classes", "mirrors"), [(("owl", "wren"), True), (("a", "b"), False), (("turn_left", "stop"), False)]
)
def test_letters_and_directions_are_not_mirrored(tmp_path: Path, classes: tuple[str, ...], mirrors: bool) -> None:
    write_files(tmp_path / "d", numbered(dict.fromkeys(classes, 4)))
    assert look_at([tmp_path / "d"]).domains[0].mirrors is mirrors


@pytest.mark.parametrize(("smallest", "is_uneven"), [(5, False), (4, True)])
def test_classes_of_very_different_sizes_are_noticed(tmp_path: Path, smallest: int, is_uneven: bool) -> None:
    write_files(tmp_path / "d", numbered({"owl": 20 if is_uneven else 24, "wren": smallest}))
    assert look_at([tmp_path / "d"]).domains[0].is_uneven is is_uneven


def test_what_is_no_domain_is_left_out_with_its_reason(tmp_path: Path) -> None:
    names = numbered({"birds/train/owl": 2, "birds/train/wren": 2, "one/train/x": 2, f"{'x' * 201}/train/x": 1})
    write_files(tmp_path, [*names, "notes/x.txt"])
    survey = look_at([tmp_path])
    assert [domain.name for domain in survey.domains] == ["birds"]
    reasons = ("no train split", "only one class, 'x'", "longer than 200")
    assert [any(reason in text for text in survey.left_out) for reason in reasons] == [True, True, True]
    assert len(survey.left_out) == 3


def test_without_any_domain_the_reason_is_the_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is only one class"):
        look_at([write_files(tmp_path, numbered({"train/x": 2}))])
    with pytest.raises(DataError, match="name the folder of your images"):
        look_at([])


def test_domains_that_would_have_one_name_are_numbered(tmp_path: Path) -> None:
    for folder in ("My Art", "my-art", "x/My_Art", "y/My Art"):
        write_files(tmp_path / folder, numbered({"train/a": 1, "train/b": 1}))
    paths = [tmp_path / folder for folder in ("My Art", "my-art", "x/My_Art", "y/My Art")]
    names = [domain.name for domain in look_at(paths).domains]
    assert names == ["My-Art", "my-art-2", "My_Art", "My-Art-3"]
