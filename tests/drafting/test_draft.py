"""The recipe that init writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prunus.backbone.zoo import ZOO, load_backbone
from prunus.config import BackboneChoice, Recipe
from prunus.drafting import draft
from prunus.drafting.draft import Choices, choose, next_commands, write_draft
from prunus.drafting.survey import FoundDomain, Survey
from prunus.methods.costs import dense_costs
from prunus.methods.table import choose_method
from prunus.recipes import parse_recipe, parse_toml
from prunus.training.settling import choose_epochs

BIRDS = FoundDomain(
    name="birds",
    path="/data/birds",
    folder="birds",
    classes=3,
    images={"train": 80, "validation": 10, "test": 20},
    layout="split folders test, train",
    has_splits=True,
    side=32,
    mirrors=True,
    is_uneven=False,
    example="/data/birds/test/owl/0 1.png",
)


def survey(**changes: object) -> Survey:
    art = replace(BIRDS, name="Art", path="/data/My Art", folder="My Art")
    return Survey((BIRDS, replace(art, **changes)), ())  # type: ignore[arg-type]


def recipe(found: Survey, choices: Choices, out: Path = Path("/data/recipe.toml")) -> Recipe:
    return parse_recipe(parse_toml(write_draft(found, choices, out)), out.parent)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "_has_gpu", lambda: True)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("side", "backbone"), [(28, "wrn14_2"), (47, "wrn14_2"), (48, "wrn28_4"), (500, "wrn28_4")])
def test_large_images_get_the_larger_network_on_a_gpu(side: int, backbone: str) -> None:
    assert choose(survey(side=side)).backbone == backbone


def test_without_a_gpu_or_if_asked_the_network_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft, "_has_gpu", lambda: False)
    assert choose(survey(side=500)).backbone == "wrn14_2"
    assert choose(survey(side=500)).why == "no GPU was found"
    assert choose(survey(), "timm/resnet18").backbone == "timm/resnet18"


def test_validation_images_are_kept_only_where_a_domain_has_no_other_measure() -> None:
    assert (choose(survey()).splits, choose(survey()).epochs) == ("train+validation", choose_epochs(180))
    without = choose(survey(images={"train": 80, "validation": 10, "test": 0}))
    assert (without.splits, without.epochs) == ("train", choose_epochs(160))


def test_uneven_classes_are_balanced() -> None:
    assert choose(survey()).class_weights == "equal"
    assert choose(survey(is_uneven=True)).class_weights == "balanced"


def test_the_recipe_is_what_the_demo_has_and_names_every_domain() -> None:
    found = survey(has_splits=False, mirrors=False)
    written = recipe(found, choose(found))
    assert choose_method(written).name == "exact"
    assert written.budget.only_kernels == 0.25
    assert written.training.splits == "train+validation"
    assert written.training.epochs == choose_epochs(180)
    assert written.skip_bad_images
    assert [(domain.name, domain.path, domain.mirror) for domain in written.domains] == [
        ("birds", "/data/birds", True),
        ("Art", "/data/My Art", False),
    ]
    left_open = parse_recipe({"backbone": "wrn14_2", "domains": ["/data/birds"]})
    same = {"splits", "epochs"}
    assert written.training.model_dump(exclude=same) == left_open.training.model_dump(exclude=same)


def test_every_key_has_a_comment_and_no_line_is_endless() -> None:
    lines = write_draft(survey(has_splits=False), choose(survey()), Path("/data/recipe.toml")).splitlines()
    keys = [line for line in lines if " = " in line]
    assert len(keys) > 15
    assert [line for line in keys if "  # " not in line] == []
    assert [line for line in lines if len(line) > 160] == []


@pytest.mark.parametrize(
    ("out", "path"),
    [("/data/recipe.toml", '"My Art"'), ("/data/x/r.toml", '"../My Art"'), ("/a/b/c", '"/data/My Art"')],
)
def test_paths_are_relative_to_the_recipe_unless_that_is_far(out: str, path: str) -> None:
    text = write_draft(survey(), choose(survey()), Path(out))
    assert f"path = {path}" in text
    assert recipe(survey(), choose(survey()), Path(out)).domains[1].path == "/data/My Art"


@pytest.mark.parametrize("folder", ['a"b', "a\\b", "a#b", "a'''b", "ü\u202e", "\x7f\x1b"])
def test_any_folder_name_is_written_so_that_it_is_read_again(folder: str) -> None:
    found = Survey((replace(BIRDS, path=f"/data/{folder}", folder=folder),), (f"left out {folder}\n",))
    assert recipe(found, choose(found)).domains[0].path == f"/data/{folder}"
    assert write_draft(found, choose(found), Path("/r")).replace("\n", "").isprintable()


def test_commands_can_be_typed_as_they_are() -> None:
    commands = next_commands(survey(), Path("my recipe.toml"))
    assert commands[:2] == ["prunus check 'my recipe.toml'", "prunus plan 'my recipe.toml'"]
    assert commands[-1] == "prunus predict model.prunus '/data/birds/test/owl/0 1.png' --domain birds"


def test_the_bundled_networks_cost_what_the_comment_says() -> None:
    macs = [dense_costs(load_backbone(BackboneChoice(name=name, weights="random"))).dense_macs() for name in ZOO]
    assert set(draft.BACKBONES.items()) == {(name, entry.size) for name, entry in ZOO.items()}
    assert round(max(macs) / min(macs)) == 34
