"""Before a long training one hears whether a model file can be made of its network."""

import pytest

from prunus.config import BackboneChoice
from prunus.timing.dense import why_not_a_file


@pytest.mark.parametrize("name", ["wrn28_4", "timm/resnet18"])
def test_a_network_of_known_operations_can_be_written(name: str) -> None:
    assert why_not_a_file(BackboneChoice(name=name, weights="random", size=32)) is None


def test_a_network_with_an_unknown_operation_is_named_with_it() -> None:
    reason = why_not_a_file(BackboneChoice(name="timm/convnextv2_atto", weights="random", size=32))
    assert reason is not None
    assert "GlobalResponseNorm" in reason
    assert "prunus evaluate" in reason
