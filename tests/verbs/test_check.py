"""`prunus.check` takes a domain, a folder of domains or a recipe, and tells them apart."""

from collections.abc import Callable
from pathlib import Path

import pytest

import prunus
from prunus.errors import DataError, RecipeError
from tests.makers.own_networks import CLASSES, leaf_recipe, pictures


def test_a_recipe_is_checked_whether_it_is_a_file_or_an_object(make_domain: Callable[..., Path]) -> None:
    folder = make_domain("birds")
    (folder / "train" / "a" / "bad.png").write_bytes(b"no image")
    path = folder.with_name("recipe.toml")
    path.write_text('backbone = "wrn14_2"\ndomains = ["birds"]\nskip_bad_images = true\n')
    report = prunus.check(path)
    assert [(finding.level, finding.file) for finding in report.findings] == [("warning", "train/a/bad.png")]
    assert prunus.check(prunus.load_recipe(path)) == report
    assert prunus.check(folder).has_errors


@pytest.mark.parametrize(
    ("splits", "images"),
    [("train", {"train": 18, "validation": 2, "test": 4}), ("train+validation", {"train": 20, "test": 4})],
)
def test_images_are_counted_as_training_splits_them(
    make_domain: Callable[..., Path], splits: str, images: dict[str, int]
) -> None:
    folder = make_domain("birds", train=10)
    path = folder.with_name("recipe.toml")
    path.write_text(f'backbone = "wrn14_2"\ndomains = ["birds"]\ntraining.splits = "{splits}"\n')
    assert prunus.check(path).domains[0].images == images
    assert prunus.check(folder).domains[0].images == {"train": 20, "test": 4}


def test_a_missing_recipe_is_not_taken_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no recipe file at .*recipes\.toml"):
        prunus.check(tmp_path / "recipes.toml")


def test_own_domains_are_checked_beside_folders(make_domain: Callable[..., Path]) -> None:
    recipe = leaf_recipe(domains=[str(make_domain("birds"))])
    shades = prunus.OwnDomain(train=pictures(8), classes=CLASSES)
    seen: list[None] = []
    report = prunus.check(recipe, on_image=lambda: seen.append(None), domains={"shades": shades})
    assert [(domain.name, domain.classes) for domain in report.domains] == [("birds", 2), ("shades", 2)]
    assert len(seen) == 12 + 8
    assert report.notes == (
        "shades: class folders without splits: 2 of 8 images are held out for the test, "
        "chosen by a hash of their names",
    )


def test_a_domain_of_a_folder_cannot_be_passed_too(make_domain: Callable[..., Path]) -> None:
    recipe = leaf_recipe(domains=[str(make_domain("birds"))])
    with pytest.raises(RecipeError, match=r"has a domain 'birds' at .*birds; pass yours under another name"):
        prunus.check(recipe, domains={"birds": prunus.OwnDomain(pictures(8), classes=CLASSES)})
    with pytest.raises(RecipeError, match="a domain name has letters from A to Z"):
        prunus.check(recipe, domains={"my birds": prunus.OwnDomain(pictures(8), classes=CLASSES)})
    with pytest.raises(RecipeError, match="domains from Python are checked with a recipe"):
        prunus.check("data", domains={"shades": prunus.OwnDomain(pictures(8), classes=CLASSES)})
    with pytest.raises(DataError, match="must be a torch dataset"):
        prunus.check(recipe, domains={"cars": 3})  # type: ignore[dict-item]


def test_the_source_of_a_recipe_is_checked_too(make_domain: Callable[..., Path]) -> None:
    source, domain = make_domain("imagenet"), make_domain("birds")
    (source / "train" / "a" / "bad.png").write_bytes(b"no image")
    recipe = leaf_recipe(domains=[str(domain)], source=str(source))
    report = prunus.check(recipe)
    assert [summary.name for summary in report.domains] == ["imagenet", "birds"]
    assert [(finding.level, finding.domain) for finding in report.findings] == [("error", "imagenet")]


def test_a_source_beside_a_benchmark_is_checked_too(make_domain: Callable[..., Path]) -> None:
    source, flowers = make_domain("photos"), make_domain("flowers")
    (source / "train" / "a" / "bad.png").write_bytes(b"no image")
    content = {"benchmark": "imagenet_to_sketch", "root": str(flowers.parent), "domains": ["flowers"]}
    report = prunus.check(prunus.parse_recipe(content | {"backbone": "wrn14_2", "source": str(source)}))
    assert [summary.name for summary in report.domains] == ["flowers", "photos"]
    assert ("error", "photos") in {(finding.level, finding.domain) for finding in report.findings}
    without = prunus.check(prunus.parse_recipe(content | {"backbone": "wrn14_2"}))
    assert [summary.name for summary in without.domains] == ["flowers"]
