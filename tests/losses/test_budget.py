"""The budget loss and its multiplier, by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prunus.losses.budget import BUDGETS, Layers, budget_constraint, usage
from prunus.losses.duals import ascend


def test_the_budget_gradient_equals_autograd() -> None:
    bits = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64, requires_grad=True)
    (3.0 * (bits.mean() - 0.25)).clamp(min=0).backward()  # type: ignore[no-untyped-call]
    other = torch.tensor([True, False, False, False])  # a second domain, within its budget
    found = budget_constraint(torch.stack([bits.detach() > 0, other]), 0.25)
    assert found.violation[:, 0].tolist() == pytest.approx([0.5, 0.0])
    assert bits.grad is not None
    gradient = found.loss_gradient(torch.tensor([[3.0], [5.0]])).expand(2, 4)
    torch.testing.assert_close(gradient.double(), torch.stack([bits.grad, torch.zeros_like(bits.grad)]))


def test_within_the_budget_nothing_pushes() -> None:
    found = budget_constraint(torch.tensor([[True, False, False, False]]), 0.25)
    assert found.loss_gradient(torch.tensor([[100.0]])).abs().sum() == 0


LAYERS = Layers(sizes=(4, 2, 6), macs=(9, 100, 1))
BITS_DK = torch.tensor([[1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1], [0] * 12]).bool()


@pytest.mark.parametrize("per", ["layer", "macs"])
def test_the_gradients_of_other_budgets_equal_autograd(per: str) -> None:
    bits = BITS_DK.double().requires_grad_()
    parts = torch.split(bits, list(LAYERS.sizes), 1)
    if per == "layer":
        loss = torch.stack([(part.mean(1) - 0.25).clamp(min=0) for part in parts]).mean(0)
    else:
        weighted = [part.sum(1) * macs for part, macs in zip(parts, LAYERS.macs, strict=True)]
        loss = (torch.stack(weighted).sum(0) / (4 * 9 + 2 * 100 + 6) - 0.25).clamp(min=0)
    (3.0 * loss).sum().backward()  # type: ignore[no-untyped-call]
    found = BUDGETS[per](BITS_DK, 0.25, LAYERS)
    assert found.violation.clamp(min=0)[:, 0].tolist() == pytest.approx(loss.tolist())
    assert bits.grad is not None
    assert bits.grad[0].any()
    gradient = found.loss_gradient(torch.full((2, 1), 3.0)).expand(2, 12)
    torch.testing.assert_close(gradient.double(), bits.grad, rtol=1e-6, atol=1e-9)


def test_budgets_mean_different_things() -> None:
    # 5 of 12 kernels; three quarters, half and a sixth of the layers; 3 * 9 + 100 + 1 of 242 multiply-accumulates
    violations = {per: float(limit(BITS_DK, 0.25, LAYERS).violation[0, 0]) for per, limit in BUDGETS.items()}
    expected = {"network": 5 / 12 - 0.25, "layer": (0.5 + 0.25 + 0) / 3, "macs": 128 / 242 - 0.25}
    assert violations == pytest.approx(expected, rel=1e-6)


def test_usage_is_the_share_of_switches_that_are_on() -> None:
    assert usage(torch.tensor([[True, False], [True, True]])).tolist() == [0.5, 1.0]


@given(st.floats(0, 100, width=32), st.floats(-1, 1, width=32), st.floats(0.015625, 10, width=32))
def test_a_multiplier_climbs_while_violated_and_is_zero_once_the_constraint_holds(
    multiplier: float, violation: float, rate: float
) -> None:
    after = float(ascend(torch.tensor(multiplier), torch.tensor(violation), rate))
    assert after == (pytest.approx(multiplier + rate * violation, rel=1e-5, abs=1e-6) if violation > 0 else 0)
