"""The order in which training sees the domains: a pure function of the seed, so any step can be repeated.

Legend: D = domains.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prunus.config import Strategy

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """One optimizer step: the domains in the batch, and which of their images."""

    epoch: int
    parts: tuple[tuple[int, Indices], ...]


def schedule(strategy: Strategy, sizes: Sequence[int], batch_size: int, epochs: int, seed: int) -> Iterator[Step]:
    """Yield all steps of a training run over D domains of these sizes."""
    return STRATEGIES[strategy](sizes, batch_size, epochs, seed)


def num_steps(strategy: Strategy, sizes: Sequence[int], batch_size: int, epochs: int) -> int:
    """Count the steps that `schedule` yields."""
    if strategy == "mixed":
        return epochs * math.ceil(sum(max(1, size // 2) for size in sizes) / (batch_size // 2))
    return epochs * sum(_num_batches(size, batch_size) for size in sizes)


def _round_robin(sizes: Sequence[int], batch_size: int, epochs: int, seed: int) -> Iterator[Step]:
    for epoch in range(epochs):
        for domain in _rng(seed, epoch).permutation(len(sizes)):
            for indices in _batches(sizes[domain], batch_size, _rng(seed, epoch, domain)):
                yield Step(epoch, ((int(domain), indices),))


def _alternate(sizes: Sequence[int], batch_size: int, epochs: int, seed: int) -> Iterator[Step]:
    for epoch in range(epochs):
        queues = {d: iter(_batches(n, batch_size, _rng(seed, epoch, d))) for d, n in enumerate(sizes)}
        while queues:
            for domain in list(queues):
                indices = next(queues[domain], None)
                if indices is None:
                    del queues[domain]  # a smaller domain waits for the others
                else:
                    yield Step(epoch, ((domain, indices),))


def _mixed(sizes: Sequence[int], batch_size: int, epochs: int, seed: int) -> Iterator[Step]:
    for epoch in range(epochs):
        # batch statistics of one image are useless: the domains are mixed in pairs of images
        pairs = [
            (domain, pair)
            for domain, size in enumerate(sizes)
            for pair in np.array_split(_rng(seed, epoch, domain).permutation(size), max(1, size // 2))
        ]
        order = _rng(seed, epoch).permutation(len(pairs))
        for start in range(0, len(pairs), batch_size // 2):
            chosen = [pairs[i] for i in order[start : start + batch_size // 2]]
            domains = sorted({domain for domain, _ in chosen})
            yield Step(epoch, tuple((d, np.concatenate([pair for e, pair in chosen if e == d])) for d in domains))


def _individual(sizes: Sequence[int], batch_size: int, epochs: int, seed: int) -> Iterator[Step]:
    for domain, size in enumerate(sizes):
        for epoch in range(epochs):
            for indices in _batches(size, batch_size, _rng(seed, epoch, domain)):
                yield Step(epoch, ((domain, indices),))


STRATEGIES: dict[Strategy, Callable[[Sequence[int], int, int, int], Iterator[Step]]] = {
    "round_robin": _round_robin,
    "alternate": _alternate,
    "mixed": _mixed,
    "individual": _individual,
}


def _rng(seed: int, epoch: int, domain: int | None = None) -> np.random.Generator:
    return np.random.default_rng([seed, epoch, 0 if domain is None else domain + 1])


def _num_batches(size: int, batch_size: int) -> int:
    # a single image left over joins the batch before it
    return max(1, (size + batch_size - 2) // batch_size)


def _batches(size: int, batch_size: int, rng: np.random.Generator) -> list[Indices]:
    cuts = [batch_size * i for i in range(1, _num_batches(size, batch_size))]
    return np.split(rng.permutation(size), cuts)
