"""Domains open in every layout of files."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from prunus.config import DomainChoice
from prunus.data.layouts import open_domain
from prunus.errors import DataError


def test_a_sketch_set_without_test_images_is_refused(make_domain: Callable[..., Path], tmp_path: Path) -> None:
    make_domain("root/flowers", train=6, test=0)
    with pytest.raises(DataError, match="has no test split: looked for test or val"):
        open_domain(DomainChoice(name="flowers", path=str(tmp_path / "root" / "flowers"), layout="imagenet_to_sketch"))


def test_the_validation_split_of_a_sketch_set_without_test_is_its_test_split(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("root/imagenet", train=10, validation=3, test=0)
    shutil.move(folder / "validation", folder / "val")
    domain = open_domain(DomainChoice(name="imagenet", path=str(folder), layout="imagenet_to_sketch"), 0.2)
    assert {item.file.split("/")[0] for item in domain.test} == {"val"}
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (16, 4, 6)


def test_a_set_of_the_decathlon_is_opened_by_its_name(decathlon: Path) -> None:
    domain = open_domain(DomainChoice(name="dtd", path=str(decathlon), layout="decathlon"))
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (16, 4, 8)
