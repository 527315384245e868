"""Switches inside a pool of kernels that all domains share.

Legend: D = domains, M = switches of a domain.
"""

import torch
from torch import Tensor
from typing_extensions import override

from prunus.masks.layout import SwitchLayout
from prunus.masks.switches import Switches


class PooledSwitches(Switches):
    """A score per domain and switch, and two bounds of every domain's mask.

    Only open switches can be on. Fixed switches are on whatever their score: once the pool has its final size, each of
    its switches is fixed in one domain, so no kernel is stored that nobody uses.
    """

    open_DM: Tensor  # noqa: N815  # shape suffix; booleans
    fixed_DM: Tensor  # noqa: N815

    def __init__(self, layout: SwitchLayout, num_domains: int) -> None:
        super().__init__(layout, num_domains)
        shape = (num_domains, layout.num_switches)
        self.register_buffer("open_DM", torch.ones(shape, dtype=torch.bool))
        self.register_buffer("fixed_DM", torch.zeros(shape, dtype=torch.bool))

    @override
    def bits(self, domain: int) -> dict[str, Tensor]:
        score_M, open_M = self.scores_DM[domain], self.open_DM[domain]
        on_M = open_M & ((score_M > self.threshold) | self.fixed_DM[domain])
        # the bracket is exactly 0: closed switches pass no gradient on
        return self.layout.factors(on_M.to(score_M.dtype) + (score_M - score_M.detach()) * open_M)

    @override
    def masks(self) -> Tensor:
        return self.open_DM & (super().masks() | self.fixed_DM)

    @torch.no_grad()
    def reopen(self) -> None:
        """Open all switches again and fix none; in place."""
        self.open_DM.fill_(True)
        self.fixed_DM.fill_(False)

    @torch.no_grad()
    def restrict(self, open_DM: Tensor, fixed_DM: Tensor | None = None) -> None:
        """Close all switches but some of those that are still open, and fix some of these; in place."""
        self.open_DM &= open_DM
        if fixed_DM is not None:
            self.fixed_DM.copy_(fixed_DM & self.open_DM)
