"""The closed-form gradients against autograd over the formulas as the paper writes them."""

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from prunus.errors import UnknownNameError
from prunus.losses import sharing
from prunus.losses.constraint import Constraint
from prunus.losses.sharing import PENALTIES, SHARING_LOSSES, find_sharing_loss
from prunus.methods.table import choose_method
from prunus.recipes import parse_recipe


def _folded(mask: Tensor) -> tuple[Tensor, Tensor]:
    common, total = mask[0], mask[0]
    for row in mask[1:]:
        common = common * row
        total = total + row - total * row
    return common.sum(), total.sum()


def _paper(name: str, mask: Tensor, budget: float) -> Tensor:
    common, total = _folded(mask)
    formulas = {
        "intersection": lambda: 1 - common / (mask.shape[1] * budget),
        "union": lambda: total / mask.shape[1] - budget,
        "jaccard": lambda: 1 - common / total,
        "soft_overlap": lambda: _soft_overlap(mask),
    }
    return formulas[name]()


def _soft_overlap(mask: Tensor) -> Tensor:
    """Average Chattopadhyay et al.'s sIoU over all pairs of domains."""
    pairs = list(combinations(mask, 2))
    overlaps = [(a * b).sum() / (a + b - a * b).sum().clamp(min=1e-12) for a, b in pairs]
    return sum(overlaps, start=mask.sum() * 0) / max(len(pairs), 1)


@st.composite
def masks(draw: st.DrawFn) -> Tensor:
    domains, switches = draw(st.integers(1, 8)), draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    mask = torch.rand(domains, switches, generator=generator) < draw(st.floats(0.05, 1.0))
    mask[0, 0] = True  # the paper's Jaccard divides by the union
    return mask


@pytest.mark.parametrize("name", SHARING_LOSSES)
@given(mask=masks(), budget=st.floats(0.05, 1.0), weight=st.floats(0.01, 10.0))
def test_closed_form_gradients_equal_autograd_for_one_to_eight_domains(
    name: str, mask: Tensor, budget: float, weight: float
) -> None:
    bits = mask.double().requires_grad_()
    violation = _paper(name, bits, budget)
    loss = torch.clamp(weight * violation, min=0)
    loss.backward()  # type: ignore[no-untyped-call]
    expected = float(violation.detach())
    found = SHARING_LOSSES[name](mask, budget)
    assert float(found.violation) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    # at a violation of exactly 0 both 0 and the one-sided slope are subgradients
    if abs(expected) > 1e-6:
        assert bits.grad is not None
        torch.testing.assert_close(found.loss_gradient(torch.tensor(weight)).double(), bits.grad, rtol=1e-5, atol=1e-7)


@given(seed=st.integers(0, 2**31), domains=st.integers(2, 5), switches=st.integers(1, 20))
def test_the_soft_overlap_of_soft_masks_is_the_papers_in_float64(seed: int, domains: int, switches: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    soft = torch.sigmoid(torch.randn(domains, switches, generator=generator, dtype=torch.float64)).requires_grad_()
    expected = _soft_overlap(soft)
    expected.backward()  # type: ignore[no-untyped-call]
    found = SHARING_LOSSES["soft_overlap"](soft.detach(), 0.5)
    assert soft.grad is not None
    assert float(found.violation) == pytest.approx(float(expected.detach()), abs=1e-12)
    torch.testing.assert_close(found.gradient, soft.grad, rtol=1e-10, atol=1e-12)


def test_union_of_three_domains_by_hand() -> None:
    mask = torch.tensor([[1, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=torch.bool)
    found = SHARING_LOSSES["union"](mask, 0.25)
    assert float(found.violation) == pytest.approx(3 / 4 - 0.25)
    expected = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0]]) / 4
    torch.testing.assert_close(found.gradient, expected)


def test_a_constraint_that_holds_has_no_gradient() -> None:
    found = SHARING_LOSSES["union"](torch.zeros(3, 8, dtype=torch.bool), 0.5)
    assert float(found.violation) == -0.5
    assert found.loss_gradient(torch.tensor(7.0)).abs().sum() == 0


def test_all_switches_off_gives_finite_losses() -> None:
    mask = torch.zeros(3, 5, dtype=torch.bool)
    for loss in SHARING_LOSSES.values():
        found = loss(mask, 0.5)
        assert torch.isfinite(found.violation)
        assert torch.isfinite(found.gradient).all()


def test_an_unknown_loss_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'union'"):
        find_sharing_loss("unoin")


def test_adding_a_sharing_loss_is_one_function_and_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_most_half_common(mask_DM: Tensor, budget: float) -> Constraint:
        size, gradient = sharing.intersection(mask_DM)
        return Constraint(size / mask_DM.shape[1] - budget / 2, gradient / mask_DM.shape[1])

    monkeypatch.setitem(SHARING_LOSSES, "at_most_half_common", at_most_half_common)
    found = find_sharing_loss("at_most_half_common")(torch.ones(2, 4, dtype=torch.bool), 0.5)
    assert float(found.violation) == pytest.approx(0.75)


def test_only_soft_overlap_has_a_fixed_weight_unless_the_recipe_names_one() -> None:
    assert PENALTIES == {"soft_overlap": 0.1}
    recipe = {"backbone": "wrn14_2", "domains": ["demo:signs", "demo:fruits"], "preset": "paper"}
    softly = recipe | {"method": "ba2", "sharing": {"loss": "soft_overlap"}}
    assert choose_method(parse_recipe(softly)).weight == 0.1
    assert {choose_method(parse_recipe(recipe | {"method": name})).weight for name in ("union", "jaccard")} == {
        "learned"
    }
