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
    return TrainedRun(recipe, tiny_backbone(), tiny_net().eval(), dict.fromkeys(CLASSES, PREPROCESS), checkpoint, path)


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
