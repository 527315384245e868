"""Scores become exactly 0 or 1, and gradients pass unchanged."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from prunus.masks.binarize import binarize


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=50))
def test_binarized_scores_are_exactly_zero_or_one_and_pass_gradients_unchanged(values: list[float]) -> None:
    scores = torch.tensor(values, requires_grad=True)
    upstream = torch.arange(1.0, len(values) + 1)
    mask = binarize(scores)
    (mask * upstream).sum().backward()  # type: ignore[no-untyped-call]
    assert mask.tolist() == [float(value > 0) for value in scores.tolist()]
    assert scores.grad is not None
    assert scores.grad.tolist() == upstream.tolist()
