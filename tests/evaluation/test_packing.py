"""A packed run says where it comes from, but not where its files were."""

from pathlib import Path

import torch

import prunus
from prunus.checkpoints.checkpoint import Checkpoint, Position
from prunus.checkpoints.provenance import domain_entries, public_recipe
from prunus.evaluation.packing import pack_run
from prunus.recipes import parse_recipe
from prunus.training.run import TrainedRun
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_backbone, tiny_identity, tiny_net, tiny_recipe


def _run(path: Path) -> TrainedRun:
    recipe = tiny_recipe(domains=[str(path / "a"), str(path / "b")])
    checkpoint = Checkpoint(Position(step=3, total_steps=8), tiny_identity(recipe), {})
    return TrainedRun(recipe, tiny_backbone(), tiny_net().eval(), dict.fromkeys(CLASSES, PREPROCESS), checkpoint)


def test_the_provenance_names_versions_steps_backbone_and_recipe(tmp_path: Path) -> None:
    run = _run(tmp_path)
    manifest = pack_run(run).manifest
    recipe = manifest.provenance["recipe"]
    assert manifest.provenance == {
        "prunus": prunus.__version__,
        "torch": torch.__version__.split("+")[0],
        "backbone_sha256": "of two convolutions",
        "step": 3,
        "total_steps": 8,
        "recipe": recipe,
    }
    assert parse_recipe(recipe) == public_recipe(run.recipe)
    assert recipe["preset"] == "paper"
    assert recipe["training"] == run.recipe.training.model_dump(mode="json")  # also what has its default
    assert recipe["evaluation"] == {"crops": 1, "batch_size": 256}
    assert manifest.backbone == "tiny"
    assert manifest.domains == domain_entries(run.checkpoint.identity)


def test_domains_keep_their_classes_and_preprocessing(tmp_path: Path) -> None:
    entries = domain_entries(_run(tmp_path).checkpoint.identity)
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
