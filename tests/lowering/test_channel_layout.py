"""Switches of whole channels: heads and neurons of a transformer that leave its matrices."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.manifest import DomainEntry
from prunus.config import BackboneChoice
from prunus.errors import RecipeError
from prunus.graph.operations import Attention, Conv
from prunus.lowering.channel_layout import ChannelLayout
from prunus.lowering.pack import pack
from prunus.masks.network import MultiDomainNet
from prunus.measure.bundle_cost import bundle_costs
from prunus.methods.costs import network_costs
from prunus.methods.exact import Options
from prunus.methods.table import adapt
from prunus.onnx.model import domain_model
from prunus.runtime.numpy_engine import NumpyEngine

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"]}
NETWORKS = {"timm/test_vit": 32, "timm/test_resnet": 32, "timm/mobilenetv2_050": 32}
WIDTH, HIDDEN, HEADS = 64, 192, 2


def _backbone(name: str) -> Backbone:
    return load_backbone(BackboneChoice(name=name, weights="random", size=NETWORKS[name]))


def _half(name: str) -> tuple[MultiDomainNet, Backbone]:
    """Return a network of which half of the switches are on: in each domain most, and some in one of them only."""
    torch.manual_seed(0)
    backbone = _backbone(name)
    net = adapt(backbone, CLASSES, "exact", options=Options(granularity="channel")).eval()
    assert net.switches is not None
    layout = net.switches.layout
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.05)
        net.switches.scores_DM.fill_(1.0)
        first = 0
        for count in layout.sizes:
            net.switches.scores_DM[:, first : first + count // 2] = -1.0
            net.switches.scores_DM[1, first + count - count // 4 : first + count] = -1.0
            first += count
    return net, backbone


def _packed(net: MultiDomainNet, backbone: Backbone) -> Bundle:
    entries = {name: DomainEntry(classes=tuple(c), preprocess=backbone.preprocess) for name, c in CLASSES.items()}
    return pack(net, backbone, entries, {"recipe": {}})


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_without_switched_off_channels_computes_what_the_masked_network_does(name: str) -> None:
    net, backbone = _half(name)
    bundle = _packed(net, backbone)
    images = torch.randn(2, 3, NETWORKS[name], NETWORKS[name])
    for domain in CLASSES:
        with torch.no_grad():
            expected = net(images, domain).numpy()
        got = NumpyEngine(bundle).logits(images.numpy(), domain)
        session = onnxruntime.InferenceSession(domain_model(onnx, bundle, domain).SerializeToString())
        (exported,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})[:1]
        for logits in (got, exported):
            assert np.abs(logits - expected).max() < 1e-4 * np.abs(expected).max()


def test_half_of_the_heads_and_neurons_leave_half_of_every_matrix() -> None:
    net, backbone = _half("timm/test_vit")
    bundle = _packed(net, backbone)
    attentions = [op for op in bundle.manifest.graph if isinstance(op, Attention)]
    assert [op.heads for op in attentions] == [HEADS // 2] * 6
    convs = {op.layer: op.channels for op in bundle.manifest.graph if isinstance(op, Conv)}
    for block in range(6):
        assert convs[f"blocks.{block}.attn.qkv"] == (3 * WIDTH // 2, WIDTH)
        assert convs[f"blocks.{block}.attn.proj"] == (WIDTH, WIDTH // 2)
        assert convs[f"blocks.{block}.mlp.fc1"] == (HIDDEN // 2, WIDTH)
        assert convs[f"blocks.{block}.mlp.fc2"] == (WIDTH, HIDDEN // 2)
    matrices = [tuple(tensor.dims) for tensor in domain_model(onnx, bundle, "a").graph.initializer]
    assert all(3 * WIDTH not in dims and HIDDEN not in dims for dims in matrices)
    assert any(3 * WIDTH // 2 in dims for dims in matrices)


def test_a_file_counts_the_kernels_and_switches_that_its_run_counts() -> None:
    net, backbone = _half("timm/test_vit")
    of_run = network_costs(net, backbone.probe)
    of_file = bundle_costs(_packed(net, backbone), granularity="channel")
    assert of_file.union() == of_run.union()
    assert [of_file.usage(domain) for domain in CLASSES] == [of_run.usage(domain) for domain in CLASSES]
    dense = bundle_costs(_packed(adapt(backbone, CLASSES, "exact"), backbone))
    assert of_file.dense_macs() == dense.dense_macs()
    assert of_file.product_macs == dense.product_macs // 2
    assert of_file.own[0].bits == of_run.own[0].bits == 6 * (HEADS + HIDDEN)


def test_the_switch_of_a_neuron_costs_its_row_and_its_column_and_is_worth_both() -> None:
    net, _ = _half("timm/test_vit")
    assert net.switches is not None
    layout = net.switches.layout
    assert isinstance(layout, ChannelLayout)
    ones = {conv.name: torch.ones(conv.out_channels, conv.in_channels) for conv in layout.convs}
    assert layout.totals(ones)[:HEADS].tolist() == [4 * WIDTH * WIDTH / HEADS] * HEADS
    assert layout.totals(ones)[HEADS : HEADS + HIDDEN].tolist() == [2 * WIDTH] * HIDDEN


def test_a_switch_that_is_off_has_a_gradient_too() -> None:
    net, _ = _half("timm/test_vit")
    net.train()(torch.randn(2, 3, 32, 32), "a").square().sum().backward()
    assert net.switches is not None
    gradient = net.switches.scores_DM.grad
    assert gradient is not None
    off = ~net.switches.masks()[0]
    assert float((gradient[0, off] != 0).float().mean()) > 0.9


def test_a_network_that_no_file_can_hold_is_refused_with_another_granularity() -> None:
    backbone = load_backbone(BackboneChoice(name="timm/xcit_nano_12_p16_224", weights="random", size=32))
    with pytest.raises(RecipeError) as refused:
        adapt(backbone, CLASSES, "exact", options=Options(granularity="channel"))
    message = str(refused.value)
    assert message.startswith('granularity = "channel" needs a network that a model file can hold, but the operation')
    assert message.endswith('choose another granularity, such as "filter", or another network')
    assert "RUN" not in message
