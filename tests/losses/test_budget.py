"""The budget loss and its multiplier, by hand."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prunus.losses.budget import budget_constraint, usage
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


def test_usage_is_the_share_of_switches_that_are_on() -> None:
    assert usage(torch.tensor([[True, False], [True, True]])).tolist() == [0.5, 1.0]


@given(st.floats(0, 100, width=32), st.floats(-1, 1, width=32), st.floats(0.015625, 10, width=32))
def test_a_multiplier_climbs_while_violated_and_is_zero_once_the_constraint_holds(
    multiplier: float, violation: float, rate: float
) -> None:
    after = float(ascend(torch.tensor(multiplier), torch.tensor(violation), rate))
    assert after == (pytest.approx(multiplier + rate * violation, rel=1e-5, abs=1e-6) if violation > 0 else 0)
