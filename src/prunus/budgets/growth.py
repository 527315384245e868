"""Let a new domain of a model file add some kernels to it, and no more than allowed.

All kernels of the original network are open at first. Those that the file lacks close on a schedule, the smallest
first, until as many are left as may be added. These are fixed: what is stored is used.

Legend: M = switches of a domain.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from prunus.budgets.keeper import EVERY
from prunus.budgets.limits import Limits, Usage
from prunus.budgets.ranking import UNUSED, worth_of
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches
from prunus.measure.budget import in_words


class GrowthKeeper:
    """Keeps the number of kernels that a domain adds to a model file.

    Args:
        kept: convolution -> (outputs, inputs): the kernels that the file has.
        most: the number of kernels that may be added.
        until: share of training after which no more kernels change.
        share: replaces tensors by those of the first of several processes.
    """

    def __init__(
        self,
        net: MultiDomainNet,
        kept: Mapping[str, Tensor],
        most: int,
        until: float = 0.5,
        share: Callable[[Sequence[Tensor]], None] = lambda _tensors: None,
    ) -> None:
        assert isinstance(net.switches, PooledSwitches)
        self.pool = net.switches
        self.limits = Limits(net.domains, kernels=most)
        self.until = until
        self._net = net
        self._share = share
        convs = self.pool.layout.convs
        self._kept_M = torch.cat([kept[conv.name].flatten() for conv in convs]).to(net.device)
        self._most = min(most, int((~self._kept_M).sum()))

    @torch.no_grad()
    def advance(self, step: int, progress: float) -> bool:
        """Close kernels up to this point of training; return whether the last ones have just been closed."""
        if self.is_final():
            return False
        done = min(1.0, progress / self.until)
        if done == 1.0:
            return self.finish()
        if done > 0 and step % EVERY == 0:
            lacking = int((~self._kept_M).sum())
            self._restrict(round(self._most + (lacking - self._most) * (1 - done) ** 3))
        return False

    @torch.no_grad()
    def finish(self) -> bool:
        """Close all kernels but those that are added; return whether anything was done."""
        if self.is_final():
            return False
        self._restrict(self._most, is_last=True)
        return True

    def _restrict(self, count: int, is_last: bool = False) -> None:
        own_M = worth_of(self._net, self.pool) * torch.where(self.pool.masks()[0], 1.0, UNUSED)
        worth_M = torch.where(self._kept_M | ~self.pool.open_DM[0], -1.0, own_M)
        added_M = torch.zeros_like(self._kept_M)
        added_M[worth_M.topk(count).indices] = True
        added_M &= worth_M >= 0
        self.pool.restrict((self._kept_M | added_M)[None], added_M[None] if is_last else None)
        self._share([self.pool.open_DM, self.pool.fixed_DM])

    def is_final(self) -> bool:
        """Return whether the added kernels are chosen."""
        return bool(self.pool.fixed_DM.any()) or not bool((self.pool.open_DM[0] & ~self._kept_M).any())

    def emptied(self) -> list[str]:
        """Return nothing: the kernels of the file stay."""
        return []

    def usage(self) -> Usage:
        """Count the kernels that are added."""
        added_M = self.pool.masks()[0] & ~self._kept_M
        areas = [conv.kernel_area for conv in self.pool.layout.convs for _ in range(conv.num_kernels)]
        weights = int((added_M * torch.tensor(areas, device=added_M.device)).sum())
        return Usage(int(added_M.sum()), weights, None, ())

    def summary(self) -> str:
        """Write how many kernels are added."""
        return in_words(self.limits.lines(self.usage()))
