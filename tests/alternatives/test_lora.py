"""LoRA adapters learn little, are saved whole, and compute the same after they are merged."""

import pytest
import torch
from safetensors.torch import load
from torch import nn

from prunus.alternatives.common.joint import JointNetwork
from prunus.alternatives.lora import ALPHA, RANK, adaptable_layers, adapter_bytes, merge, with_adapter
from prunus.errors import BackboneError
from tests.makers.own_networks import SIZE, leaf_net


@pytest.fixture
def network() -> JointNetwork:
    return JointNetwork(leaf_net(), 12, {"one": 3}, 0)


def test_the_network_itself_is_frozen(network: JointNetwork) -> None:
    adapted = with_adapter(network)
    learned = {name for name, parameter in adapted.named_parameters() if parameter.requires_grad}
    counts = sum(adapted.get_parameter(name).numel() for name in learned)
    lora = RANK * (27 + 8) + RANK * (72 + 12)  # both convolutions: 3 -> 8 and 8 -> 12
    assert counts == lora + 2 * (8 + 12) + 12 * 3 + 3
    assert not any("base_layer" in name or "original_module" in name for name in learned)


def test_an_adapter_is_saved_with_its_norms_and_classifier(network: JointNetwork) -> None:
    saved = load(adapter_bytes(with_adapter(network)))
    assert sum("lora_" in name for name in saved) == 4
    assert sum("running_mean" in name for name in saved) == 2
    assert any(name.endswith("heads.0.weight") for name in saved)
    assert not any("base_layer" in name for name in saved)


def test_merged_weights_are_the_sum_of_both(network: JointNetwork) -> None:
    adapted = with_adapter(network)
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    state = {name: tensor.clone() for name, tensor in adapted.state_dict().items()}
    images = torch.randn(2, 3, SIZE, SIZE)
    adapted(images)  # in training mode: norms count
    with torch.no_grad():
        expected = adapted.eval()(images)[0]
        merged = merge(adapted)
        torch.testing.assert_close(merged(images)[0], expected, rtol=1e-4, atol=1e-4)
    down, up = (
        next(t for n, t in state.items() if f"conv1.lora_{part}" in n and n.endswith("weight")) for part in ("A", "B")
    )
    product = torch.einsum("or,rihw->oihw", up[:, :, 0, 0], down) * ALPHA / RANK
    conv = merged.features.get_submodule("conv1").get_parameter("weight")
    torch.testing.assert_close(conv, leaf_net().conv1.weight + product)


def test_a_network_without_layers_to_adapt_is_refused() -> None:
    grouped = nn.Sequential(nn.Conv2d(3, 3, 3, groups=3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    assert adaptable_layers(grouped) == []
    with pytest.raises(BackboneError, match="PEFT's LoRA finds no layer"):
        with_adapter(JointNetwork(grouped, 3, {"one": 2}, 0))
