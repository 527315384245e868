"""Switches of whole filters and input channels, trained on real images and measured by accuracy."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import prunus
from prunus.measure.evaluation import Evaluation
from prunus.recipes import parse_recipe
from prunus.training.run import open_run


@cache
def _trained(granularity: str) -> tuple[Evaluation, float]:
    """Train two bundled domains at 16 pixels; return the measured run, and the smallest usage of a layer."""
    recipe = parse_recipe(
        {
            "backbone": {"name": "wrn14_2", "size": 16},
            "domains": ["demo:fashion", "demo:fruits"],
            "method": {"name": "union", "granularity": granularity},
            "budget": 0.35,
            "training": {"epochs": 3, "lr": 0.05, "switch_lr": 3e-4, "dual_rate": 2.0, "strategy": "alternate"},
        }
    )
    with TemporaryDirectory() as folder:
        run = prunus.train(recipe, Path(folder) / "run")
        switches = open_run(run).net.switches
        assert switches is not None
        smallest = min(float(mask.flatten(1).float().mean(1).min()) for mask in switches.layer_masks().values())
        return prunus.evaluate(run), smallest


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["filter", "input_channel"])
def test_coarse_switches_stay_within_the_budget_and_learn_nearly_as_much_as_kernel_switches(granularity: str) -> None:
    """With a gradient of the cross-entropy of 0, every filter was off and the accuracy at chance, 7 %."""
    (coarse, smallest), (fine, _) = _trained(granularity), _trained("kernel")
    assert not coarse.over_budget
    assert coarse.largest_usage > 0.5 * 0.35
    assert smallest > 0.05
    assert coarse.mean_accuracy > fine.mean_accuracy - 0.2
    assert coarse.mean_accuracy > 0.55
