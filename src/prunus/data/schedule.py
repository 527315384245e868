"""The order in which training sees the domains: a pure function of the seed, so any step can be repeated.

Legend: D = domains.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from prunus.config import Strategy

Indices = npt.NDArray[np.int64]


Parts = tuple[tuple[int, Indices], ...]  # the domains in a batch, and which of their images


@dataclass(frozen=True)
class Step:
    """One optimizer step.

    Args:
        position: epochs done before this step, of the training run or, if domains are trained one after another, of
            one domain. It does not depend on the number of epochs, so a run can be extended.
    """

    position: float
    parts: Parts

    @property
    def epoch(self) -> int:
        """The number of the current epoch."""
        return int(self.position)


def schedule(strategy: Strategy, sizes: Sequence[int], batch_size: int, epochs: int, seed: int) -> Iterator[Step]:
    """Yield all steps of a training run over D domains of these sizes."""
    if strategy != "individual":
        parts_of = partial(EPOCHS[strategy], sizes, batch_size, seed)
        yield from _steps(parts_of, epochs, num_steps(strategy, sizes, batch_size, epochs))
        return
    for domain, size in enumerate(sizes):
        parts_of = partial(_alone, domain, size, batch_size, seed)
        yield from _steps(parts_of, epochs, num_steps(strategy, [size], batch_size, epochs))


def num_steps(strategy: Strategy, sizes: Sequence[int], batch_size: int, epochs: int) -> int:
    """Count the steps that `schedule` yields."""
    if strategy == "mixed":
        return epochs * math.ceil(sum(max(1, size // 2) for size in sizes) / (batch_size // 2))
    return epochs * sum(_num_batches(size, batch_size) for size in sizes)


def _steps(parts_of: Callable[[int], Iterator[Parts]], epochs: int, total: int) -> Iterator[Step]:
    steps = total // epochs
    for epoch in range(epochs):
        for index, parts in enumerate(parts_of(epoch)):
            yield Step(epoch + index / steps, parts)


def _round_robin(sizes: Sequence[int], batch_size: int, seed: int, epoch: int) -> Iterator[Parts]:
    for domain in _rng(seed, epoch).permutation(len(sizes)):
        yield from _alone(int(domain), sizes[domain], batch_size, seed, epoch)


def _alternate(sizes: Sequence[int], batch_size: int, seed: int, epoch: int) -> Iterator[Parts]:
    queues = [_alone(domain, size, batch_size, seed, epoch) for domain, size in enumerate(sizes)]
    for turn in zip_longest(*queues):
        yield from (parts for parts in turn if parts is not None)  # a smaller domain waits for the others


def _mixed(sizes: Sequence[int], batch_size: int, seed: int, epoch: int) -> Iterator[Parts]:
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
        yield tuple((d, np.concatenate([pair for e, pair in chosen if e == d])) for d in domains)


def _shuffled(sizes: Sequence[int], batch_size: int, seed: int, epoch: int) -> Iterator[Parts]:
    batches = [parts for domain, size in enumerate(sizes) for parts in _alone(domain, size, batch_size, seed, epoch)]
    for index in _rng(seed, epoch).permutation(len(batches)):
        yield batches[index]


def _alone(domain: int, size: int, batch_size: int, seed: int, epoch: int) -> Iterator[Parts]:
    for indices in _batches(size, batch_size, _rng(seed, epoch, domain)):
        yield ((domain, indices),)


EPOCHS: dict[Strategy, Callable[[Sequence[int], int, int, int], Iterator[Parts]]] = {
    "shuffled": _shuffled,
    "round_robin": _round_robin,
    "alternate": _alternate,
    "mixed": _mixed,
}


def _rng(seed: int, epoch: int, domain: int | None = None) -> np.random.Generator:
    return np.random.default_rng([seed, epoch, 0 if domain is None else domain + 1])


def _num_batches(size: int, batch_size: int) -> int:
    # a single image left over joins the batch before it
    return max(1, (size + batch_size - 2) // batch_size)


def _batches(size: int, batch_size: int, rng: np.random.Generator) -> list[Indices]:
    cuts = [batch_size * i for i in range(1, _num_batches(size, batch_size))]
    return np.split(rng.permutation(size), cuts)
