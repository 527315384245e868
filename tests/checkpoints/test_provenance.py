"""What a model file tells about its run: everything to repeat it, and no folder of this machine."""

import json

import torch

import prunus
from prunus.checkpoints.checkpoint import Position
from prunus.checkpoints.provenance import domain_entries, provenance, public_recipe
from prunus.recipes import parse_recipe
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_identity, tiny_recipe


def test_the_provenance_names_versions_steps_backbone_and_recipe() -> None:
    recipe = tiny_recipe(domains=["/home/somebody/a", "/home/somebody/b"])
    story = provenance(tiny_identity(recipe), Position(step=3, total_steps=8))
    assert story["prunus"] == prunus.__version__
    assert torch.__version__.startswith(str(story["torch"]))
    assert story["backbone_sha256"] == "of two convolutions"
    assert (story["step"], story["total_steps"]) == (3, 8)
    assert parse_recipe(story["recipe"]) == public_recipe(recipe)
    assert "somebody" not in json.dumps(story)


def test_two_runs_of_one_recipe_tell_the_same_but_for_their_steps() -> None:
    identity = tiny_identity(tiny_recipe())
    first, second = (provenance(identity, Position(step=step, total_steps=9)) for step in (1, 2))
    assert first | {"step": 2} == second


def test_domains_keep_their_classes_and_preprocessing() -> None:
    entries = domain_entries(tiny_identity(tiny_recipe()))
    assert {name: list(entry.classes) for name, entry in entries.items()} == CLASSES
    assert all(entry.preprocess == PREPROCESS for entry in entries.values())


def test_a_public_recipe_keeps_only_the_last_part_of_every_path() -> None:
    recipe = parse_recipe(
        {
            "preset": "paper",
            "backbone": {"name": "wrn14_2", "weights": "/home/somebody/weights.pt"},
            "domains": ["/home/somebody/birds", "demo:signs"],
            "training": {"epochs": 3},
        }
    ).model_copy(update={"root": "/home/somebody/decathlon-1.0"})
    public = public_recipe(recipe)
    assert "somebody" not in public.model_dump_json()
    assert [choice.path for choice in public.domains] == ["birds", "demo:signs"]
    assert (public.backbone.weights, public.root) == ("weights.pt", "decathlon-1.0")
    assert public.training.epochs == 3
    assert recipe.domains[0].path == "/home/somebody/birds"  # the recipe itself is unchanged
