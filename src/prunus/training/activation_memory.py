"""Measure what a training step holds between the forward and the backward pass."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from prunus.masks.network import MultiDomainNet


def _loss(net: MultiDomainNet, images: Tensor, labels: Tensor, domain: str) -> Tensor:
    logits = net(images, domain)
    extra = net.extra_loss(domain, logits, labels)
    loss = F.cross_entropy(logits, labels)
    return loss if extra is None else loss + extra


def held_bytes(net: MultiDomainNet, images: Tensor, labels: Tensor, domain: str) -> int:
    """Measure the memory that a forward pass takes and does not give back, as torch's allocator sees it."""
    net.train()
    if images.is_cuda:
        before = torch.cuda.memory_allocated()
        loss = _loss(net, images, labels, domain)
        held = torch.cuda.memory_allocated() - before
    else:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            loss = _loss(net, images, labels, domain)
        # what is taken counts as positive, what is given back as negative
        held = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    del loss
    return int(held)
