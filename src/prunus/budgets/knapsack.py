"""Choose the switches that are worth most within several limits: a fractional knapsack, rounded down.

A switch is ranked by its value per cost. With several limits, its cost is a weighted sum of what it takes of each, and
the weights are learned: a limit that binds counts more, one with room to spare counts less.

Legend: R = limits, M = switches.
"""

import torch
from torch import Tensor

ROUNDS = 24  # of learning the weights of several limits
RATE = 4.0
FILLS = 4  # rounds after which hardly anything more fits


def choose(value_M: Tensor, costs_RM: Tensor, limits_R: Tensor) -> Tensor:
    """Return a mask of the most valuable switches whose costs stay within all limits.

    Nothing is read back from a GPU. A switch of infinite value is ranked first.

    Args:
        costs_RM: not negative; a switch that costs nothing at all is always chosen.
    """
    shares_RM = costs_RM / limits_R[:, None]
    if len(limits_R) == 1:
        return _greedy(value_M, shares_RM, shares_RM[0])
    order_M = _runs(value_M, costs_RM)
    chosen_M = torch.zeros_like(order_M, dtype=torch.bool)
    chosen_M[order_M] = _choose_by_weights(value_M[order_M], shares_RM.index_select(1, order_M))
    return chosen_M


def _runs(value_M: Tensor, costs_RM: Tensor) -> Tensor:
    """Return an order in which neighbours of equal costs, such as a layer, are sorted by value.

    At any weights of the limits they are then sorted by value per price too, and sorting all of them is fast.
    """
    differs_M = torch.zeros_like(value_M, dtype=torch.bool)
    differs_M[1:] = (costs_RM[:, 1:] != costs_RM[:, :-1]).any(0)
    order_M = torch.argsort(value_M, descending=True, stable=True)
    return order_M[torch.argsort(differs_M.cumsum(0)[order_M], stable=True)]


def _choose_by_weights(value_M: Tensor, shares_RM: Tensor) -> Tensor:
    """Return the best of several choices, each with other weights of the limits."""
    best = _greedy(value_M, shares_RM, shares_RM.mean(0))
    finite_M = value_M.nan_to_num(posinf=0.0)
    best_value = (finite_M * best).sum()
    weights_R = torch.ones_like(shares_RM[:, 0])
    for _ in range(ROUNDS):
        chosen = _greedy(value_M, shares_RM, weights_R @ shares_RM)
        value = (finite_M * chosen).sum()
        is_better = value > best_value
        best, best_value = torch.where(is_better, chosen, best), torch.where(is_better, value, best_value)
        used_R = shares_RM @ chosen.to(shares_RM.dtype)
        before_R, weights_R = weights_R, weights_R * torch.exp(RATE * (used_R - used_R.max()))
        weights_R = weights_R.clamp(min=1e-9 * weights_R.max())  # a limit may bind again later
        if weights_R.device.type == "cpu" and torch.equal(weights_R, before_R):
            break  # further rounds would choose the same
    return best


def _greedy(value_M: Tensor, shares_RM: Tensor, price_M: Tensor) -> Tensor:
    """Take switches by value per price as long as all of them fit, then smaller ones that fit into what is left."""
    order_M = torch.argsort(value_M / price_M.clamp(min=1e-30), descending=True, stable=True)
    sorted_RM = shares_RM.index_select(1, order_M)
    taken_M = (sorted_RM.cumsum(1) <= 1 + 1e-12).all(0)  # a prefix: costs are not negative
    for _ in range(FILLS):
        left_R1 = 1 + 1e-12 - (sorted_RM * taken_M).sum(1, keepdim=True)
        fits_M = ~taken_M & (sorted_RM <= left_R1).all(0)
        if fits_M.device.type == "cpu" and not fits_M.any():
            break
        taken_M = taken_M | (fits_M & ((sorted_RM * fits_M).cumsum(1) <= left_R1).all(0))
    chosen_M = torch.zeros_like(taken_M)
    chosen_M[order_M] = taken_M
    return chosen_M
