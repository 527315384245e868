"""Estimate the running statistics of batch norms again, with the weights and masks that a run ends with.

Training moves these statistics a little with every batch, so at its end they still average over older weights and
masks. Predictions use them, so a short run, or one whose masks change late, loses accuracy by it.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from prunus.arrays import Integers
from prunus.data.prefetch import prepare_steps
from prunus.learning.feed import Feed, StepJob, drawing
from prunus.learning.learner import Learner
from prunus.masks.layer_copies import COUNTERS
from prunus.masks.network import MultiDomainNet

MOST_IMAGES = 256  # of a batch
MOST_BATCHES = 20  # of a domain
FEWEST_BATCHES = 8  # of a small domain, whose images are then used several times, with other crops
FIRST_STEP = 2**40  # beyond the steps of any run, so that these crops differ from those of training


@torch.no_grad()
def renew_norms(learner: Learner, feeds: Sequence[Feed], sizes: Sequence[int], workers: int = 0) -> None:
    """Replace the running statistics of every domain's batch norms by means over training images.

    Norms in evaluation mode, which belong to all domains, stay as they are. Several processes compute the same.

    Args:
        sizes: number of training images of every domain.
        workers: processes that prepare images.
    """
    net = learner.net.train()
    norms = _estimating_norms(net)
    if not norms:
        return
    for name, buffer in net.adapter_list.named_buffers():
        if name.endswith(COUNTERS):
            buffer.zero_()
    jobs = list(norm_jobs(sizes, learner.recipe.seed))
    drawn = prepare_steps(jobs, drawing(feeds), workers, net.device.type == "cuda")
    with _plain_means(norms), _eagerly(learner), closing(drawn):
        for job, (inputs,) in zip(jobs, drawn, strict=True):
            ((domain, _),) = job.parts
            batch = feeds[domain].batch(tuple(tensor.to(net.device) for tensor in inputs))
            torch.manual_seed(job.step_seed)  # for dropout
            with learner.autocast():
                net(batch.images, net.domains[domain])
    learner.synchronize()


def norm_jobs(sizes: Sequence[int], seed: int) -> Iterator[StepJob]:
    """Yield batches of one domain after another; they depend on nothing but the seed and the number of images."""
    step = FIRST_STEP
    for domain, size in enumerate(sizes):
        for indices in islice(_batches(size, seed, domain), MOST_BATCHES):
            yield StepJob(seed, step, ((domain, indices),))
            step += 1


def _batches(size: int, seed: int, domain: int) -> Iterator[Integers]:
    """Yield batches of about equal size, because all of them count the same in the mean."""
    count = math.ceil(size / MOST_IMAGES)
    for turn in range(math.ceil(FEWEST_BATCHES / count)):
        order = np.random.default_rng([seed, FIRST_STEP, domain, turn]).permutation(size)
        yield from np.array_split(order, count)


def _estimating_norms(net: MultiDomainNet) -> list[_BatchNorm]:
    modules = [module for module in net.modules() if isinstance(module, _BatchNorm)]
    return [norm for norm in modules if norm.training and norm.running_mean is not None]


@contextmanager
def _plain_means(norms: Sequence[_BatchNorm]) -> Iterator[None]:
    """Let running statistics be the means over all batches since their counters were zero."""
    momenta = [norm.momentum for norm in norms]
    try:
        for norm in norms:
            norm.momentum = None  # torch's way to ask for plain means
        yield
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum


def _eagerly(learner: Learner) -> AbstractContextManager[object]:
    """Run a compiled network uncompiled: it would be compiled again for another momentum and size of a batch."""
    return torch.compiler.set_stance("force_eager") if learner.recipe.training.compile else nullcontext()
