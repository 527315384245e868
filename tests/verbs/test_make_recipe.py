"""`prunus.make_recipe` writes a recipe that can be trained, and never overwrites one unasked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import prunus
from prunus.errors import RecipeError, UnknownNameError
from prunus.recipes import load_recipe

MakeDomain = Callable[..., Path]


def test_the_written_recipe_names_the_domains_that_were_found(make_domain: MakeDomain, tmp_path: Path) -> None:
    make_domain("data/My Birds", train=10)
    make_domain("data/flowers", train=10)
    written = prunus.make_recipe(tmp_path / "data", tmp_path / "recipe.toml")
    recipe = load_recipe(written.path)
    assert [(domain.name, domain.path) for domain in recipe.domains] == [
        ("My-Birds", str(tmp_path / "data" / "My Birds")),
        ("flowers", str(tmp_path / "data" / "flowers")),
    ]
    assert [domain.images["train"] for domain in written.domains] == [18, 18]
    assert written.next_commands[2] == f"prunus train {written.path} --out runs/first"
    assert written.splits == recipe.training.splits == "train+validation"


def test_several_paths_and_another_network_may_be_named(make_domain: MakeDomain, tmp_path: Path) -> None:
    paths = [make_domain("x/birds"), make_domain("y/flowers")]
    recipe = load_recipe(prunus.make_recipe(paths, tmp_path / "r.toml", backbone="wrn28_4").path)
    assert [domain.name for domain in recipe.domains] == ["birds", "flowers"]
    assert recipe.backbone.name == "wrn28_4"


def test_what_the_backbone_needs_is_named(
    make_domain: MakeDomain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert prunus.make_recipe(make_domain(), tmp_path / "a.toml").missing is None
    monkeypatch.setitem(sys.modules, "prunus_samples", None)
    missing = prunus.make_recipe(make_domain(), tmp_path / "b.toml").missing
    assert "pip install 'prunus[demo]'" in str(missing)
    assert prunus.make_recipe(make_domain(), tmp_path / "c.toml", backbone="timm/resnet18").missing is None


def test_an_existing_recipe_is_kept_unless_asked(make_domain: MakeDomain, tmp_path: Path) -> None:
    out = tmp_path / "recipe.toml"
    out.write_text("mine")
    with pytest.raises(RecipeError, match=r"recipe\.toml exists already; choose another name, or overwrite it"):
        prunus.make_recipe(make_domain(), out)
    assert out.read_text() == "mine"
    prunus.make_recipe(make_domain(), out, force=True)
    assert load_recipe(out).domains[0].name == "domain"
    with pytest.raises(UnknownNameError, match=r"unknown folder or zip file .*'brids'; did you mean 'birds'"):
        prunus.make_recipe(make_domain("birds").with_name("brids"), out)
    with pytest.raises(RecipeError, match="is a folder; name the file to write"):
        prunus.make_recipe(make_domain(), tmp_path)
