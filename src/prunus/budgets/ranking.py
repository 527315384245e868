"""Rank the switches of a pool by worth and cost, and open as many as the limits allow.

Legend: D = domains, M = switches of a domain, R = limits, L = layers, O = output channels, I = input channels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from prunus.budgets.knapsack import choose
from prunus.budgets.limits import Limits
from prunus.budgets.switch_costs import SwitchCosts
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches

UNUSED = 1e-3  # worth of a switch to a domain that has it off, relative to one that it has on
SPREAD = 1.5  # MACs of the pool, relative to what one domain may use of it


@dataclass(frozen=True)
class Ranking:
    """The switches of a network, in the order of its weights and masks as they are now.

    Args:
        fixed_bytes: the part of a model file that no switch changes: heads, norms and the description.
    """

    net: MultiDomainNet
    pool: PooledSwitches
    limits: Limits
    costs: SwitchCosts
    fixed_bytes: float = 0.0

    @torch.no_grad()
    def worth(self) -> Tensor:
        """Return the worth of every switch."""
        return worth_of(self.net, self.pool)

    @torch.no_grad()
    def floor(self) -> Tensor:
        """Return a mask of the most valuable switch of every layer: the least that a network keeps."""
        return _first_of_layers(self.worth(), self.costs.layer)

    @torch.no_grad()
    def opened(self, scale: float = 1.0, done: float = 1.0) -> Tensor:
        """Return the switches that may be on, at a scale of the limits, when part of the shrinking is done: (D, M)."""
        worth_M = self.worth()
        worth_M[_first_of_layers(worth_M, self.costs.layer)] = torch.inf
        shrunk_M = self._shrunk(worth_M, scale, done)
        rows = []
        for index, limit in enumerate(self.limits.macs or [None] * len(self.pool.open_DM)):
            if limit is None:
                rows.append(shrunk_M)
                continue
            own_M = self._own_worth(worth_M, shrunk_M, index)
            allowed = _eased(self.costs.macs.sum(), scale * self._free(limit), done)
            rows.append(shrunk_M & choose(own_M, self.costs.macs[None], allowed[None]))
        return torch.stack(rows) & self.pool.open_DM

    @torch.no_grad()
    def closed_that_fit(self, open_DM: Tensor, allowed_M: Tensor, domain: int, macs: float) -> Tensor:
        """Return the most valuable switches that only other domains have open, as many as these MACs allow: a mask."""
        closed_M = allowed_M & open_DM.any(0) & ~open_DM[domain]
        if macs < 1:
            return torch.zeros_like(closed_M)
        limit_R = torch.tensor([macs], dtype=self.costs.macs.dtype, device=closed_M.device)
        return closed_M & choose(self._own_worth(self.worth(), closed_M, domain), self.costs.macs[None], limit_R)

    def _free(self, macs: int) -> int:
        """Return what a limit on MACs leaves for switches."""
        return max(macs - self.limits.fixed_macs, 1)

    def _own_worth(self, worth_M: Tensor, allowed_M: Tensor, domain: int) -> Tensor:
        """Return the worth of switches to a domain; -1 where it may not have them."""
        used_M = self.pool.masks()[domain]
        return torch.where(allowed_M, worth_M * torch.where(used_M, 1.0, UNUSED), -1.0)

    def _shrunk(self, worth_M: Tensor, scale: float, done: float) -> Tensor:
        """Return the switches that any domain may have on."""
        costs, limits = self.costs, self.limits
        macs = [self._free(limit) for limit in limits.macs or () if limit is not None]
        spread = SPREAD * max(macs) if limits.macs and len(macs) == len(limits.macs) and len(macs) > 1 else None
        size = None if limits.bytes is None else max(limits.bytes - self.fixed_bytes, 1.0)
        pairs = [
            (cost_M, _eased(cost_M.sum(), scale * limit, done))
            for cost_M, limit in (
                (costs.kernels, limits.kernels),
                (costs.weights, limits.weights),
                (costs.bytes, size),
                (costs.macs, spread),
            )
            if limit is not None
        ]
        open_M = self.pool.open_DM.any(0)
        if not pairs:
            return open_M
        limits_R = torch.stack([limit for _, limit in pairs])
        ranked_M = torch.where(open_M, worth_M, -1.0)
        return choose(ranked_M, torch.stack([cost_M for cost_M, _ in pairs]), limits_R) & open_M


@torch.no_grad()
def worth_of(net: MultiDomainNet, pool: PooledSwitches) -> Tensor:
    """Return the worth of every switch of a network: the squared norm of its weights."""
    tensors: dict[str, Tensor] = dict(net.network.named_parameters())
    for adapter in net.adapters:
        if adapter is pool:
            break
        tensors |= adapter.tensors(0, tensors)
    layout = pool.layout
    return layout.totals({conv.name: _squares(tensors[f"{conv.name}.weight"]) for conv in layout.convs})


def _first_of_layers(worth_M: Tensor, layer_M: Tensor) -> Tensor:
    best_L = torch.full((int(layer_M[-1]) + 1,), -torch.inf, dtype=worth_M.dtype, device=worth_M.device)
    best_L = best_L.scatter_reduce(0, layer_M, worth_M, "amax")
    index_M = torch.arange(len(worth_M), device=worth_M.device)
    candidate_M = torch.where(worth_M == best_L[layer_M], index_M, len(worth_M))
    first_L = torch.full_like(best_L, len(worth_M), dtype=torch.long).scatter_reduce(0, layer_M, candidate_M, "amin")
    mask_M = torch.zeros_like(worth_M, dtype=torch.bool)
    mask_M[first_L] = True
    return mask_M


def _squares(weight: Tensor) -> Tensor:
    """Sum the squares of the weights of every kernel, as float64: (O, I)."""
    return weight.detach().double().square().reshape(*weight.shape[:2], -1).sum(-1)


def _eased(whole: Tensor, limit: float, done: float) -> Tensor:
    """Return the limit at a point of the shrinking: from the whole to the limit, fast at first, then ever slower."""
    final = torch.clamp(torch.tensor(limit, dtype=whole.dtype, device=whole.device), max=whole)
    return final + (whole - final) * (1 - done) ** 3
