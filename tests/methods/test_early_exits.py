"""Early exits: where they are, and which one a domain uses."""

import pytest
import torch
from torch import nn

from prunus.errors import BackboneError
from prunus.methods.early_exits import Exits, exit_layers

SHAPES = {"stem": (4, 8, 8), "one": (4, 8, 8), "two": (8, 4, 4), "three": (8, 2, 2), "flat": (8,)}


def _network(*stages: str) -> nn.Module:
    network = nn.Identity()
    network.feature_info = [{"module": stage} for stage in stages]  # type: ignore[assignment]
    return network


def test_exits_are_after_the_last_stages_but_the_final_one() -> None:
    network = _network("stem", "one", "two", "three", "flat")  # a stage without pixels is none
    assert exit_layers(network, SHAPES, 3) == ["one", "two"]
    assert exit_layers(network, SHAPES, 4) == ["stem", "one", "two"]


def test_a_network_with_too_few_stages_is_refused() -> None:
    with pytest.raises(BackboneError, match=r"the network has 1 stage, too few for 3 exits; lower method\.exits"):
        exit_layers(_network("one", "flat"), SHAPES, 3)
    with pytest.raises(BackboneError, match="has 0 stages"):
        exit_layers(nn.Identity(), SHAPES, 2)


@pytest.mark.parametrize(
    ("accuracies", "tolerance", "exit_"),
    [([0.5, 0.7, 0.9], 0.01, 2), ([0.89, 0.7, 0.9], 0.02, 0), ([0.5, 0.95, 0.9], 0.0, 1), ([0.9, 0.9, 0.9], 0.0, 0)],
)
def test_the_earliest_exit_within_the_tolerance_of_the_best_is_used(
    accuracies: list[float], tolerance: float, exit_: int
) -> None:
    exits = Exits({"one": 4, "two": 8}, 8, [2], tolerance).eval()
    assert exits.stop(0) is None  # before it was measured: the last exit
    exits.measured(0, torch.tensor(accuracies))
    assert exits.chosen(0) == exit_
    assert exits.stop(0) == ["one", "two", None][exit_]
