"""Shrink the pool of a network while it trains, until it fits its limits exactly.

Every mask lies between two bounds, and what a model takes only grows with its masks. So once the open switches fit the
limits, no later change of a score can exceed them, and once the fixed switches fill them, none can leave much unused.
There are rare exceptions: a channel that is constant in some domains may take more bytes than one that is not, and a
changed norm may silence the last input of a kernel. So the masks are measured once more when training ends.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from prunus.budgets.limits import Limits, Usage
from prunus.budgets.meter import NetworkMeter
from prunus.budgets.ranking import Ranking
from prunus.budgets.search import FILLED, Search
from prunus.budgets.switch_costs import SwitchCosts
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches
from prunus.measure.budget import in_words

EMPTY = "the budget leaves {empty} of {layers} layers without any kernel that is read; set a larger budget"
EVERY = 20  # steps between two sizes of the pool


class Keeper:
    """Keeps the limits of one network.

    Args:
        meter: returns what measures the network as it is now.
        until: share of training after which the pool stays as it is.
        share: replaces tensors by those of the first of several processes, so that all have the same pool.
    """

    def __init__(
        self,
        net: MultiDomainNet,
        limits: Limits,
        costs: SwitchCosts,
        meter: Callable[[], NetworkMeter],
        until: float = 0.5,
        share: Callable[[Sequence[Tensor]], None] = lambda _tensors: None,
    ) -> None:
        assert isinstance(net.switches, PooledSwitches)
        self.pool = net.switches
        self.limits = limits
        self.until = until
        self.meter = meter
        self._share = share
        self._is_final: bool | None = None  # unknown: the state may come from a checkpoint
        fixed_bytes = 0.0
        if limits.bytes is not None:
            fixed_bytes = (meter().usage(torch.ones_like(self.pool.open_DM)).bytes or 0) - float(costs.bytes.sum())
        self._ranking = Ranking(net, self.pool, limits, costs, fixed_bytes)

    def smallest(self) -> Usage:
        """Return what the smallest network takes: one switch per layer."""
        return self.meter().usage(self._ranking.floor().expand_as(self.pool.open_DM))

    @torch.no_grad()
    def advance(self, step: int, progress: float) -> bool:
        """Shrink the pool to its size at this point of training; return whether it has just reached its final size."""
        if self.is_final():
            return False
        done = min(1.0, progress / self.until)
        if done == 1.0:
            return self.finish()
        if done > 0 and step % EVERY == 0:
            self._restrict(self._ranking.opened(done=done))
        return False

    @torch.no_grad()
    def finish(self) -> bool:
        """Bring the pool to its final size, if it is not there; return whether anything was done.

        A pool that is right but leaves much unused is only added to: other masks may have made room since.
        """
        meter, before_DM = self.meter(), self.pool.open_DM.clone()
        is_right = self.is_final() and self._is_right()
        if is_right and self.limits.share_used(meter.usage(before_DM)) >= FILLED:
            return False
        self.pool.open_DM.fill_(True)  # what left may come back, in place of kernels that nothing reads any more
        search = Search(self._ranking, meter)
        opened_DM = search.filled(before_DM) if is_right else search.largest()
        if is_right and torch.equal(opened_DM, before_DM):
            self.pool.open_DM.copy_(before_DM)
            return False
        self._restrict(opened_DM, search.fixed(opened_DM))
        self._is_final = True
        return True

    def _restrict(self, open_DM: Tensor, fixed_DM: Tensor | None = None) -> None:
        self.pool.restrict(open_DM, fixed_DM)
        self._share([self.pool.open_DM, self.pool.fixed_DM])

    def is_final(self) -> bool:
        """Return whether the pool has its final size."""
        if self._is_final is None:
            self._is_final = bool(self.pool.fixed_DM.any())
        return self._is_final

    def _is_right(self) -> bool:
        """Return whether the masks keep the limits and leave no more unused than the open switches do."""
        meter = self.meter()
        usage = meter.usage(self.pool.masks())
        used, possible = self.limits.share_used(usage), self.limits.share_used(meter.usage(self.pool.open_DM))
        return self.limits.are_kept(usage) and used >= min(FILLED, possible)

    def emptied(self) -> list[str]:
        """Say how many layers the budget leaves without any kernel, if it closes any switch."""
        if bool(self.pool.open_DM.all()):
            return []
        empty = self.meter().empty_layers(self.pool.masks())
        count = len(self.pool.layout.convs)
        return [EMPTY.format(empty=len(empty), layers=count)] if empty else []

    def usage(self) -> Usage:
        """Measure the network with its masks."""
        return self.meter().usage(self.pool.masks())

    def summary(self) -> str:
        """Write the most that the network takes of every limit: with all open switches on."""
        usage = self.meter().usage(self.pool.open_DM)
        return f"at most {in_words(self.limits.lines(usage))}; each domain still chooses among these kernels"
