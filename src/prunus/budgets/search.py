"""Find the largest pool that fits its limits as measured, and the switches that must stay on to fill them.

Legend: D = domains, M = switches of a domain.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from prunus.budgets.limits import Limits, Usage
from prunus.budgets.meter import Meter, RememberingMeter
from prunus.budgets.ranking import Ranking

TRIES = 20  # of the search
MORE_TRIES = 300  # to fill what it leaves
ENOUGH = 0.9995  # of a limit: no larger pool is searched for
SHARING_TRIES = 20  # to fill the limits of single domains
FILLED = 0.985  # of a limit that later changes of the masks must not leave unused


class Search:
    """The search for the final pool of one network.

    The ranking counts switches, and a file differs from that a little: it lacks kernels that nothing reads, and
    channels that nothing needs. So what fits is always measured.
    """

    def __init__(self, ranking: Ranking, meter: Meter) -> None:
        self.ranking = ranking
        self.meter = RememberingMeter(meter)
        self.pool = ranking.pool
        self.limits: Limits = ranking.limits

    def largest(self) -> Tensor:
        """Return the open switches of the largest pool that fits: (D, M)."""
        best = self.ranking.floor() & self.pool.open_DM
        refused: Tensor | None = None
        low, scale, high = 0.0, 1.0, float("inf")
        for _ in range(TRIES):
            opened = self.ranking.opened(scale)
            used = self.limits.share_used(self.meter.usage(opened))
            if self._fits(opened):
                best, low = opened, scale
                if used >= ENOUGH or bool((opened == self.pool.open_DM).all()):
                    return self._shared_out(best)
            else:
                refused, high = opened, scale
            if high - low < 1e-6 * scale or (refused is not None and _are_neighbours(best, refused)):
                break
            wanted = scale / max(used, 1e-6)  # if all that is open counted alike
            between = 2 * low if high == float("inf") else (low + high) / 2
            scale = wanted if low < wanted < high and wanted != scale else between
        return self.filled(best)

    def filled(self, open_DM: Tensor) -> Tensor:
        """Return a pool that fits with the switches that still fit besides: (D, M)."""
        for rows in self._groups_of_domains():
            open_DM = self._topped_up(open_DM, rows)
        return self._shared_out(open_DM)

    def fixed(self, open_DM: Tensor) -> Tensor:
        """Choose the switches that stay on: each in the domain that wants it most, or more where that is too little.

        If every domain used nothing else, the model must still fill its limits: otherwise kernels would be lost later.
        """
        enough = min(FILLED, self.limits.share_used(self.meter.usage(open_DM)))
        score_DM = torch.where(open_DM, self.pool.scores_DM.detach(), -torch.inf)
        number_D1 = torch.arange(len(open_DM), device=open_DM.device)[:, None]
        owned_DM = open_DM & (number_D1 == score_DM.argmax(0))
        # of the domains with most MACs, the one that uses most
        macs_D = (open_DM * self.ranking.costs.macs).sum(1)
        on_D = (open_DM & (score_DM > self.pool.threshold)).sum(1)
        fullest = torch.where(macs_D == macs_D.max(), on_D, -1).argmax()
        anchored_DM = owned_DM | (open_DM & (number_D1 == fullest))
        for fixed_DM in (owned_DM, anchored_DM):
            if self.limits.share_used(self.meter.usage(fixed_DM)) >= enough:
                return fixed_DM
        return open_DM.clone()

    def _fits(self, open_DM: Tensor) -> bool:
        """Return whether a pool fits with all its switches on and, where that may take more bytes, with its masks."""
        if not self.limits.are_kept(self.meter.usage(open_DM)):
            return False
        if self.limits.bytes is None:
            return True  # fewer switches never take more
        fixed_DM = self.fixed(open_DM)
        masks_DM = open_DM & ((self.pool.scores_DM.detach() > self.pool.threshold) | fixed_DM)
        return self.limits.are_kept(self.meter.usage(masks_DM))

    def _topped_up(self, open_DM: Tensor, row_D1: Tensor) -> Tensor:
        """Open more switches in some domains, the most valuable first, where the search leaves much unused.

        In a small network one switch can bring many others to life, so a step of the search may be too large.
        """
        closed_DM = self.pool.open_DM & ~open_DM & row_D1
        closed_M = closed_DM.any(0)
        order = self.ranking.worth().masked_fill(~closed_M, -torch.inf).argsort(descending=True)[: int(closed_M.sum())]
        first, count = 0, max(1, len(order) // 2)
        for _ in range(MORE_TRIES):
            if first >= len(order) or self.limits.share_used(self.meter.usage(open_DM)) >= FILLED:
                break
            added = order[first : first + count]
            candidate = open_DM.clone()
            candidate[:, added] |= closed_DM[:, added]
            if self._fits(candidate):
                open_DM, first = candidate, first + count
            elif count > 1:
                count //= 2
            else:
                first += 1
        return open_DM

    def _shared_out(self, open_DM: Tensor) -> Tensor:
        """Let domains with room under their own MACs use more of the kernels that others have: these are stored anyway.

        Several domains are tried at once. A switch may bring others to life, so they begin with what would fit if none
        did, and go on with less, and with other switches, if that is too much.
        """
        portion = 1.0
        allowed_DM = self.pool.open_DM.clone()
        for _ in range(SHARING_TRIES if self.limits.macs else 0):
            rooms = self._rooms(self.meter.usage(open_DM))
            rows = [
                self.ranking.closed_that_fit(open_DM, allowed_DM[index], index, portion * room)
                for index, room in enumerate(rooms)
            ]
            added_DM = torch.stack(rows)
            if not bool(added_DM.any()):
                break
            if self._fits(open_DM | added_DM):
                open_DM, portion = open_DM | added_DM, min(1.0, 2 * portion)
            elif int(added_DM.sum()) == 1:
                allowed_DM &= ~added_DM
            else:
                portion /= 2
        return open_DM

    def _rooms(self, usage: Usage) -> list[float]:
        """Return the MACs that each domain may use in addition; none where it has no limit or has nearly filled it."""
        limits = self.limits.macs or [None] * len(usage.macs)
        pairs = zip(limits, usage.macs, strict=True)
        return [limit - used if limit is not None and used < FILLED * limit else 0.0 for limit, used in pairs]

    def _groups_of_domains(self) -> Iterator[Tensor]:
        """Return all domains and, where each has its own limit or its own bytes, every one, as columns of booleans."""
        size, device = len(self.limits.domains), self.pool.open_DM.device
        yield torch.ones(size, 1, dtype=torch.bool, device=device)
        if self.limits.macs or self.limits.bytes is not None:
            yield from torch.eye(size, dtype=torch.bool, device=device)[:, :, None]


def _are_neighbours(first_DM: Tensor, second_DM: Tensor) -> bool:
    """Return whether two pools differ by one switch at most, so that none is between them."""
    return int((first_DM ^ second_DM).any(0).sum()) <= 1
