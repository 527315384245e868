"""`prunus.check` takes a domain, a folder of domains or a recipe, and tells them apart."""

from collections.abc import Callable
from pathlib import Path

import pytest

import prunus
from prunus.errors import RecipeError


def test_a_recipe_is_checked_whether_it_is_a_file_or_an_object(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("birds")
    (folder / "train" / "a" / "bad.png").write_bytes(b"no image")
    path = folder.with_name("recipe.toml")
    path.write_text('backbone = "wrn14_2"\ndomains = ["birds"]\nskip_bad_images = true\n')
    report = prunus.check(path)
    assert [(finding.level, finding.file) for finding in report.findings] == [("warning", "train/a/bad.png")]
    assert prunus.check(prunus.load_recipe(path)) == report
    assert prunus.check(folder).has_errors


def test_a_missing_recipe_is_not_taken_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no recipe file at .*recipes\.toml"):
        prunus.check(tmp_path / "recipes.toml")
