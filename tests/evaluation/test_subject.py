"""A run whose network no model file can hold is measured all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

import prunus
from prunus.errors import BackboneError


def test_a_network_that_no_file_can_hold_is_measured_and_refused_by_prune(
    make_domain: Callable[..., Path], tmp_path: Path
) -> None:
    make_domain("data/birds", classes=("owl", "wren"), train=3)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'domains = ["data/birds"]\nbudget = 0.5\n[backbone]\nname = "timm/test_efficientnet_gn"\nweights = "random"\n'
        "size = 32\n[training]\nepochs = 1\n"
    )
    run = prunus.train(prunus.load_recipe(recipe), tmp_path / "run", device="cpu")
    results = prunus.evaluate(run, device="cpu")
    assert results.model_bytes is None
    assert 0 < results.params_ratio <= 1.1
    with pytest.raises(BackboneError, match=r"layer '\S+' \(GroupNorm\w*\) is not among those of a model file's graph"):
        prunus.prune(run, tmp_path / "m.prunus")
    assert not (tmp_path / "m.prunus").exists()
