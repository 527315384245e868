"""Replay steps as CUDA graphs: one launch instead of thousands, with the Python of a step run only once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from prunus.training.feed import Feed
from prunus.training.learner import Learner


@dataclass(frozen=True)
class _Captured:
    """A graph and the buffer from which it reads the picks of a batch."""

    graph: torch.cuda.CUDAGraph
    picks: Tensor


class StepRunner:
    """Runs the steps of one domain at a time, captured where that is possible.

    A step of a domain and a batch size first runs as it is. Its second run captures it, and all others replay the
    graph. A method whose step cannot be captured keeps running as it is.
    """

    def __init__(self, learner: Learner, feeds: list[Feed]) -> None:
        self._learner = learner
        self._feeds = feeds
        self._graphs: dict[tuple[int, int], _Captured | None] = {}  # (domain, batch size); None: seen once
        self.captures = learner.recipe.training.cuda_graphs and all(feed.resident for feed in feeds)
        self._pool = torch.cuda.graph_pool_handle() if self.captures else None

    def run(self, parts: list[tuple[int, Tensor]], factor: float) -> None:
        """Take one optimizer step on the drawn parts of a batch, (domain, picks_B4) each, at a factor of the rates."""
        self._learner.set_rates(factor)
        if not self.captures or len(parts) > 1:
            self._run_eagerly(parts)
            return
        domain, picks_B4 = parts[0]
        key = (domain, len(picks_B4))
        if key not in self._graphs:
            self._run_eagerly(parts)  # creates momentum buffers and compiles, which a capture must not do
            self._graphs[key] = None
            return
        captured = self._graphs[key] or self._capture(domain, picks_B4)
        if captured is None:
            self.captures = False
            self._run_eagerly(parts)
            return
        self._graphs[key] = captured
        captured.picks.copy_(picks_B4, non_blocking=True)
        captured.graph.replay()

    def _run_eagerly(self, parts: list[tuple[int, Tensor]]) -> None:
        device = self._learner.net.device
        batches = []
        for domain, picks_B4 in parts:
            feed = self._feeds[domain]
            picks_B4 = picks_B4.to(device, non_blocking=True) if feed.resident else picks_B4  # noqa: PLW2901
            batches.append(feed.batch(picks_B4))
        self._learner.update(batches)

    def _capture(self, domain: int, picks_B4: Tensor) -> _Captured | None:
        static_B4 = picks_B4.to(self._learner.net.device)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                self._learner.update([self._feeds[domain].batch(static_B4)])
        except RuntimeError:  # the step reads a value back, or allocates where a graph must not
            torch.cuda.synchronize()
            return None
        return _Captured(graph, static_B4)
