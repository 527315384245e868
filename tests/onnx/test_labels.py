"""Exported models are described with the names and numbers of the model file."""

import json
from pathlib import Path

from prunus.bundle.bundle import Bundle
from prunus.images import Preprocess
from prunus.onnx.labels import RESIZE, as_metadata, describe_models
from tests.makers.graph_bundles import random_bundle, varied_graph


def test_every_way_to_fit_an_image_is_described() -> None:
    assert set(RESIZE) == set(Preprocess.model_fields["fit"].annotation.__args__)  # type: ignore[union-attr]


def test_classes_with_other_letters_stay_readable() -> None:
    bundle = random_bundle(varied_graph(0), 12, ("birds", "flowers"))
    renamed = bundle.manifest.domains["flowers"].model_copy(update={"classes": ("rösli", "花", "c")})
    domains = bundle.manifest.domains | {"flowers": renamed}
    bundle = Bundle(bundle.manifest.model_copy(update={"domains": domains}), bundle.arrays)
    metadata = as_metadata(bundle, ["flowers"])
    assert metadata["classes"] == '{"flowers": ["rösli", "花", "c"]}'
    assert json.loads(metadata["domains"]) == list(json.loads(metadata["preprocess"])) == ["flowers"]
    labels = describe_models(bundle, dict.fromkeys(bundle.domains, Path("x/model.onnx")), is_single=True)
    assert [(entry.file, entry.number) for entry in labels.domains.values()] == [("model.onnx", 0), ("model.onnx", 1)]
    assert labels.domains["flowers"].classes == ("rösli", "花", "c")
