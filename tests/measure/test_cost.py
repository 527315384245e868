"""Costs by closed formula, by brute force, and by torch's own counter."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from prunus.backbone.zoo import load_backbone
from prunus.config import BackboneChoice
from prunus.masks.layout import switch_layout
from prunus.measure.cost import CostReport, DomainCost, count_layer, count_packed_layer

SHAPES = {"stem": (4, 3, 9, 64), "down": (8, 4, 1, 16), "depthwise": (8, 1, 25, 16)}  # O, I, area, positions
Masks = dict[str, npt.NDArray[np.bool_]]


def _report(masks: Masks, domains: int, has_switches: bool = True) -> CostReport:
    layers = tuple(count_layer(name, mask, SHAPES[name][2], SHAPES[name][3]) for name, mask in masks.items())
    switches = sum(layer.num_kernels for layer in layers) if has_switches else 0
    return CostReport(tuple(f"d{i}" for i in range(domains)), layers, (DomainCost(switches),) * domains)


@st.composite
def drawn_masks(draw: st.DrawFn) -> Masks:
    domains = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    density = draw(st.sampled_from([0.0, 0.2, 0.7, 1.0]))
    return {name: rng.random((domains, o, i)) < density for name, (o, i, _, _) in SHAPES.items()}


@given(masks=drawn_masks())
def test_all_costs_equal_a_brute_force_count(masks: Masks) -> None:
    domains = len(masks["stem"])
    used, macs, union_weights, common, unused, switches, weights, dense_macs = (
        [0] * domains,
        [0] * domains,
        0,
        0,
        [],
        0,
        0,
        0,
    )
    union = 0
    for name, (outputs, inputs, area, positions) in SHAPES.items():
        layer_unused = 0
        for o in range(outputs):
            for i in range(inputs):
                bits = [bool(masks[name][d, o, i]) for d in range(domains)]
                switches += 1
                weights += area
                dense_macs += area * positions
                union += any(bits)
                union_weights += area * any(bits)
                common += all(bits)
                layer_unused += not any(bits)
                for d, bit in enumerate(bits):
                    used[d] += bit
                    macs[d] += bit * area * positions
        unused.append(layer_unused / (outputs * inputs))
    report = _report(masks, domains)
    assert [report.usage(f"d{d}") for d in range(domains)] == [count / switches for count in used]
    assert [report.macs(f"d{d}") for d in range(domains)] == macs
    assert report.dense_macs() == dense_macs
    assert report.union() == union / switches
    assert report.intersection() == common / switches
    assert report.sparsity() == pytest.approx(sum(unused) / len(unused))
    assert report.params_ratio() == pytest.approx((32 * union_weights + domains * switches) / (32 * weights))
    assert report.mean_macs_ratio() == pytest.approx(sum(macs) / dense_macs / domains)


def test_the_source_domain_counts_as_one_in_the_other_convention() -> None:
    masks = {name: np.ones((9, o, i), dtype=np.bool_) for name, (o, i, _, _) in SHAPES.items()}
    for mask in masks.values():
        mask[:, :, :] = False
    assert _report(masks, 9).mean_macs_ratio(with_source=True) == pytest.approx(0.1)


def test_layers_that_lost_channels_are_counted_against_the_whole_layer() -> None:
    mask = np.array([[[True, False]], [[True, True]]])
    layer = count_packed_layer("c", np.packbits(mask.reshape(2, -1), axis=1), 20, 9, 4)
    report = CostReport(("a", "b"), (layer,), (DomainCost(), DomainCost()))
    assert (report.usage("a"), report.union(), report.intersection()) == (1 / 20, 2 / 20, 1 / 20)
    assert (report.macs("a"), report.dense_macs(), report.params_ratio()) == (36, 20 * 36, 0.1)


def test_a_method_without_switches_pays_no_bits() -> None:
    masks = {name: np.ones((5, o, i), dtype=np.bool_) for name, (o, i, _, _) in SHAPES.items()}
    assert _report(masks, 5, has_switches=False).params_ratio() == 1.0


@pytest.mark.parametrize(("name", "domains", "expected"), [("wrn28_4", 9, 1.031), ("timm/resnet50", 5, 1.089)])
def test_with_nothing_pruned_the_parameters_are_the_papers(name: str, domains: int, expected: float) -> None:
    convs = switch_layout(load_backbone(BackboneChoice(name=name, weights="random")).network).convs
    masks = {c.name: np.ones((domains, c.out_channels, c.in_channels), dtype=np.bool_) for c in convs}
    layers = tuple(count_layer(c.name, masks[c.name], c.kernel_area, 1) for c in convs)
    switches = DomainCost(sum(layer.num_kernels for layer in layers))
    report = CostReport(tuple(map(str, range(domains))), layers, (switches,) * domains)
    assert round(report.params_ratio(), 3) == expected


@pytest.mark.parametrize("name", ["wrn28_4", "timm/resnet50", "timm/mobilenetv2_100"])
def test_dense_macs_equal_half_of_torchs_flop_count(name: str) -> None:
    backbone = load_backbone(BackboneChoice(name=name, weights="random"))
    convs = switch_layout(backbone.network).convs
    ours = sum(c.num_kernels * c.kernel_area * backbone.probe.positions[c.name] for c in convs)
    size = backbone.preprocess.size
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        backbone.network(torch.zeros(1, 3, size, size))
    flops = counter.get_flop_counts()["Global"]
    assert ours == sum(count for op, count in flops.items() if "convolution" in str(op)) // 2
