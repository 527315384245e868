"""The processes that train one network together: shares of a batch, sums and agreements.

Every process holds the whole network and computes its share of each batch. Sums over all processes then make every
process take the same step. A process that trains alone has a world of 1, for which nothing here does anything.

Legend: W = processes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from prunus.errors import TrainingError

FAILURE = "failure"  # under this key the first process that fails says why
BEGUN = "prunus has begun"  # a key that torchrun's store keeps when it starts processes again

Plain = TypeVar("Plain")  # a value that JSON can hold


class OtherProcessFailed(TrainingError):  # noqa: N818  # not an error of this process
    """Another process ended, so this one cannot continue."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stopped because another process failed ({reason})")


@dataclass(frozen=True)
class Portion:
    """What one process computes of some images that pass through the network together.

    Args:
        images: number of images of all processes together.
        rows: those of this process, counted from the beginning of the batch.
        weight: factor of this process's loss in the sum over all processes.
        is_split: whether other processes compute other images, so that norms need the statistics of all.
        counts: whether this process counts its images, so that each image is counted once.
    """

    images: int
    rows: range
    weight: float = 1.0
    is_split: bool = False
    counts: bool = True


@dataclass(frozen=True)
class Processes:
    """The processes that train together, and the place of this one among them (default: it is alone).

    Args:
        rank: number of this process among all.
        world: number of processes.
        device: where this process computes.
        node: number of this machine.
        on_node: number of processes on this machine.
        leads_node: whether this process goes first where a machine's processes share files.
        store: where processes leave messages for each other.
        remembered: where they leave messages for processes that torchrun starts after them.
        is_restarted: whether torchrun has started the processes again, so that they continue their run.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    node: int = 0
    on_node: int = 1
    leads_node: bool = True
    store: Store | None = None
    remembered: Store | None = None
    is_restarted: bool = False
    _turns: Iterator[int] = field(default_factory=count, repr=False)  # all processes call in the same order

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and talks to the user."""
        return self.rank == 0

    def portions(self, images: int, parts: int = 1) -> list[Portion]:
        """Return this process's shares of a batch that passes through the network in so many parts.

        Every process gets images of every part, so norms see the same parts as one process alone would. A part with
        fewer images than processes is computed whole by all of them.
        """
        size = -(-images // parts)
        return [self._portion(range(start, min(start + size, images))) for start in range(0, images, size)]

    def _portion(self, part: range) -> Portion:
        images = len(part)
        if self.world == 1:
            return Portion(images, part)
        if images < self.world:
            return Portion(images, part, 1 / self.world, counts=self.is_first)
        return Portion(images, part[self.rows(images)], is_split=True)

    def rows(self, images: int) -> slice:
        """Return which of so many images are this process's, if no image may be counted twice."""
        return slice(images * self.rank // self.world, images * (self.rank + 1) // self.world)

    @torch.no_grad()
    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors of one type by their sums over all processes, in one exchange."""
        if self.world > 1 and tensors:
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
            dist.all_reduce(flat)
            _copy_back(flat, tensors)

    @torch.no_grad()
    def average_(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Replace tensors of one type by their means over all processes, each with a weight of its own."""
        if self.world > 1 and tensors:
            flat = torch.cat([*(tensor.reshape(-1) for tensor in tensors), tensors[0].new_ones(1)]) * weight
            dist.all_reduce(flat)
            _copy_back(flat[:-1] / flat[-1], tensors)

    @torch.no_grad()
    def broadcast_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by those of the first process; their types may differ."""
        for dtype in sorted({tensor.dtype for tensor in tensors}, key=str) if self.world > 1 else ():
            group = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.reshape(-1) for tensor in group]).to(self.device)
            dist.broadcast(flat, 0)
            if not self.is_first:
                _copy_back(flat, group)

    def gather(self, row: Tensor) -> Tensor:
        """Stack the rows of all processes."""
        if self.world == 1:
            return row[None]
        rows = [torch.empty_like(row) for _ in range(self.world)]
        dist.all_gather(rows, row.contiguous())
        return torch.stack(rows)

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """Return which flags are set in at least one process."""
        if self.world == 1:
            return list(flags)
        counts = torch.tensor(flags, dtype=torch.float32, device=self.device)
        dist.all_reduce(counts)
        return [bool(number) for number in counts.tolist()]

    def agree(self, value: Plain) -> Plain:
        """Return the first process's value, which JSON must be able to hold, in all processes."""
        if self.store is None:
            return value
        key = f"agree/{next(self._turns)}"
        if self.is_first:
            self.store.set(key, json.dumps(value))
            return value
        self._wait(key)
        agreed: Plain = json.loads(self.store.get(key))
        return agreed

    def remember_start(self) -> None:
        """Note that training begins, so processes that torchrun starts after these continue what these began."""
        if self.remembered is not None:
            self.remembered.set(BEGUN, "")

    def barrier(self) -> None:
        """Wait until all processes have come this far."""
        self.any([False])

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """Let each machine's first process do something before its others, which then find the files it left."""
        if self.store is None:
            yield
            return
        key = f"first/{next(self._turns)}/{self.node}"
        if not self.leads_node:
            self._wait(key)
        yield
        if self.leads_node:
            self.store.set(key, "done")

    def _wait(self, key: str) -> None:
        """Wait for another process as long as it takes, unless one fails."""
        assert self.store is not None
        while not self.store.check([key]):
            if self.store.check([FAILURE]):
                raise OtherProcessFailed(self.failure())
            time.sleep(0.05)

    def fail(self, error: BaseException) -> None:
        """Tell the other processes why this one ends."""
        if self.store is not None:
            self.store.compare_set(FAILURE, "", f"process {self.rank}: {error}")

    def failure(self) -> str:
        """Return why another process ended, if it said so."""
        if self.store is None or not self.store.check([FAILURE]):
            return "it ended without a message"
        return self.store.get(FAILURE).decode()


ALONE = Processes()


def _copy_back(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.copy_(part.view(tensor.shape))
