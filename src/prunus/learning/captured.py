"""Replay steps as CUDA graphs: one launch instead of thousands, with the Python of a step run only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from prunus.learning.feed import Feed, Inputs
from prunus.learning.learner import Batch, Learner


@dataclass(frozen=True)
class _Captured:
    """A graph and the buffers from which it reads the inputs of a batch."""

    graph: torch.cuda.CUDAGraph
    inputs: Inputs


def _ignore(_message: str) -> None:
    pass


class StepRunner:
    """Runs optimizer steps, captured if that is possible.

    A step of a domain and a batch size first runs normally. Its second run captures it, and all others replay the
    graph. Steps that mix domains, and methods whose step cannot be captured, always run normally.
    """

    def __init__(self, learner: Learner, feeds: Sequence[Feed], note: Callable[[str], None] = _ignore) -> None:
        """Prepare steps of a learner; `note` is told if they cannot be captured."""
        self._learner = learner
        self._note = note
        self._feeds = feeds
        self._graphs: dict[tuple[int, int], _Captured | None] = {}  # (domain, batch size); None: seen once
        self.pinned = learner.net.device.type == "cuda"  # inputs in pinned memory arrive while the host goes on
        self.captures = learner.recipe.training.cuda_graphs and self.pinned
        self._was_rounding = False
        self._pool = torch.cuda.graph_pool_handle() if self.captures else None

    def run(self, parts: Sequence[tuple[int, int]], drawn: Sequence[Inputs], factor: float) -> None:
        """Take one optimizer step on what was drawn, at a factor of the learning rates.

        Args:
            parts: the domains of the step, each with the number of images of all processes.
        """
        if self._learner.is_rounding != self._was_rounding:
            self._graphs.clear()  # they were recorded otherwise
            self._was_rounding = self._learner.is_rounding
        captured = self._captured(parts[0], drawn[0]) if self.captures and len(parts) == 1 else None
        if captured is None:
            batches = [self._batch(part, self._send(inputs)) for part, inputs in zip(parts, drawn, strict=True)]
            self._learner.step(batches, factor)
            return
        self._learner.set_rates(factor)
        for buffer, tensor in zip(captured.inputs, drawn[0], strict=True):
            buffer.copy_(tensor, non_blocking=True)
        captured.graph.replay()

    def _captured(self, key: tuple[int, int], inputs: Inputs) -> _Captured | None:
        if key not in self._graphs:
            self._graphs[key] = None  # the first run creates momentum buffers and compiles, which a capture must not do
            return None
        captured = self._graphs[key] or self._capture(key, inputs)
        self._graphs[key] = captured
        self.captures = captured is not None
        return captured

    def _capture(self, part: tuple[int, int], inputs: Inputs) -> _Captured | None:
        static = self._send(inputs)
        graph = torch.cuda.CUDAGraph()
        try:
            # with several processes, a thread of NCCL asks the device all the time how far earlier sums have come
            mode = "thread_local" if self._learner.processes.world > 1 else "global"
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode=mode):
                self._learner.update([self._batch(part, static)])
        except RuntimeError as error:  # the step reads a value back, or allocates where a graph must not
            torch.cuda.synchronize()
            reason = str(error).splitlines()[0]
            self._note(f"steps cannot be recorded as CUDA graphs and will be slower ({reason})")
            return None
        return _Captured(graph, static)

    def _batch(self, part: tuple[int, int], inputs: Inputs) -> Batch:
        domain, total = part
        return replace(self._feeds[domain].batch(inputs), total=total)

    def _send(self, inputs: Inputs) -> Inputs:
        device = self._learner.net.device
        return tuple(tensor.to(device, non_blocking=True) for tensor in inputs)
