"""Switches: what they turn off, and how gradients reach them."""

import pytest
import torch

from prunus.masks.layout import ConvShape, SwitchLayout
from prunus.masks.switches import Switches


def test_everything_is_on_at_the_start() -> None:
    switches = Switches(SwitchLayout((ConvShape("c", 4, 3, (3, 3)),)), num_domains=2)
    assert bool(switches.masks().all())
    assert switches.scores_DM.flatten().tolist() == pytest.approx([1e-3] * 24)


def test_a_switch_off_removes_exactly_its_kernel() -> None:
    layout = SwitchLayout((ConvShape("c", 2, 2, (3, 3)),))
    switches = Switches(layout, num_domains=1)
    with torch.no_grad():
        switches.scores_DM[0, 1] = -1.0  # output 0, input 1
    weight = torch.randn(2, 2, 3, 3)
    masked = switches.tensors(0, {"c.weight": weight})["c.weight"]
    assert masked[0, 1].abs().sum() == 0
    kept = torch.tensor([[True, False], [True, True]])
    assert torch.equal(masked[kept], weight[kept])


def test_gradients_reach_switches_that_are_off() -> None:
    switches = Switches(SwitchLayout((ConvShape("c", 1, 2, (1, 1)),)), num_domains=1)
    with torch.no_grad():
        switches.scores_DM[0, 0] = -1.0
    switches.tensors(0, {"c.weight": torch.tensor([[[[2.0]], [[3.0]]]])})["c.weight"].sum().backward()  # type: ignore[no-untyped-call]
    assert switches.scores_DM.grad is not None
    assert switches.scores_DM.grad.tolist() == [[2.0, 3.0]]


@pytest.mark.parametrize(
    ("granularity", "switches", "off"),
    [("kernel", 20, 1), ("filter", 6, 3), ("input_channel", 7, 4), ("weight", 12 * 9 + 8, 1), ("1x4", 12 + 2, 1)],
)
def test_a_switch_takes_its_kernel_filter_or_input_with_it(granularity: str, switches: int, off: int) -> None:
    layout = SwitchLayout((ConvShape("a", 4, 3, (3, 3)), ConvShape("b", 2, 4, (1, 1))), granularity)
    switched = Switches(layout, num_domains=2)
    assert layout.num_switches == switches
    with torch.no_grad():
        switched.scores_DM[1, 0] = -1.0
    weight = torch.ones(4, 3, 3, 3)
    masked = switched.tensors(1, {"a.weight": weight, "b.weight": torch.ones(2, 4, 1, 1)})["a.weight"]
    assert int((masked == 0).sum()) == (1 if granularity == "weight" else off * 9)
    assert int((~switched.kernel_masks()[1]).sum()) == off
    assert bool(switched.kernel_masks()[0].all())
