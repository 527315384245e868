"""Row-wise Adam against torch's own, row by row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prunus.learning.optimizers.row_adam import RowAdam


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), domains=st.integers(1, 4), steps=st.integers(1, 12))
def test_every_row_moves_as_if_torchs_adam_had_it_alone(seed: int, domains: int, steps: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(domains, 7, generator=generator)
    rows = [row.clone().requires_grad_() for row in scores]
    theirs = [torch.optim.Adam([row], lr=0.01) for row in rows]
    ours = RowAdam(scores)
    for _ in range(steps):
        active = torch.rand(domains, generator=generator) < 0.5
        gradient = torch.randn(domains, 7, generator=generator)
        scores.grad = gradient
        ours.step(active, torch.tensor(0.01))
        for row, optimizer, one, takes_part in zip(rows, theirs, gradient, active, strict=True):
            if takes_part:
                row.grad = one.clone()
                optimizer.step()
    torch.testing.assert_close(scores, torch.stack(rows).detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1e-7, 1e-8, 1e-10])
def test_tiny_gradients_are_damped_as_torchs_adam_damps_them(size: float) -> None:
    scores = torch.zeros(1, 3)
    row = scores[0].clone().requires_grad_()
    theirs = torch.optim.Adam([row], lr=0.01)
    ours = RowAdam(scores)
    for direction in (1.0, 1.0, -1.0):
        scores.grad = torch.full((1, 3), direction * size)
        row.grad = scores.grad[0].clone()
        ours.step(torch.tensor([True]), lr=torch.tensor(0.01))
        theirs.step()
    torch.testing.assert_close(scores[0], row.detach(), rtol=1e-4, atol=0)


def test_a_row_that_takes_no_part_is_left_exactly_as_it_was() -> None:
    scores = torch.randn(2, 5)
    optimizer = RowAdam(scores)
    scores.grad = torch.randn(2, 5)
    optimizer.step(torch.tensor([True, True]), torch.tensor(0.1))
    before = scores.clone()
    scores.grad = torch.randn(2, 5)
    optimizer.step(torch.tensor([True, False]), torch.tensor(0.1))
    assert torch.equal(scores[1], before[1])
    assert not torch.equal(scores[0], before[0])
