"""What a finished model takes, counted without the code that keeps budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import Usage
from prunus.budgets.meter import HEADROOM
from prunus.bundle.file import bundle_bytes, read_bundle
from prunus.checkpoints.checkpoint import Position
from prunus.checkpoints.provenance import domain_entries, provenance
from prunus.config import Budget
from prunus.lowering.pack import pack
from tests.makers.drawn_budgets import Drawn

RESERVE = HEADROOM + 16


def measured(drawn: Drawn, path: Path) -> Usage:
    """Write the model file of a network and count what is in it."""
    steps = Position(step=999, total_steps=999)
    bundle = pack(drawn.net.eval(), drawn.backbone, domain_entries(drawn.identity), provenance(drawn.identity, steps))
    path.write_bytes(bundle_bytes(bundle, drawn.identity.recipe.dtype))
    return count_file(path)


def count_file(path: Path) -> Usage:
    """Count what is in a model file."""
    read = read_bundle(path)
    kernels = weights = 0
    macs = [0] * len(read.domains)
    for layer, conv in read.manifest.convs.items():
        area = conv.kernel[0] * conv.kernel[1]
        kept = int(read.union(layer).sum())
        kernels, weights = kernels + kept, weights + kept * area
        for index, domain in enumerate(read.domains):
            macs[index] += int(read.mask(domain, layer).sum()) * area * conv.positions
    return Usage(kernels, weights, path.stat().st_size, tuple(macs))


def exceeded(budget: Budget, used: Usage, network: nn.Module, domains: Sequence[str]) -> list[str]:
    """Return the parts of a budget that a model exceeds, by the numbers of the recipe."""
    kernels = [m.weight.flatten(0, 1) for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert used.bytes is not None
    macs = budget.macs if isinstance(budget.macs, dict) else dict.fromkeys(domains, budget.macs)
    pairs: list[tuple[str, int, float | None]] = [
        ("kernels", used.kernels, budget.kernels and budget.kernels * sum(map(len, kernels))),
        ("weights", used.weights, budget.weights and budget.weights * sum(kernel.numel() for kernel in kernels)),
        ("bytes", used.bytes, budget.bytes),
        *((f"macs of {name}", count, macs.get(name)) for name, count in zip(domains, used.macs, strict=True)),
    ]
    return [f"{name}: {count} > {limit}" for name, count, limit in pairs if limit and count > limit + 1e-6]


def with_reserve(usage: Usage) -> Usage:
    """Add the bytes that are kept free for longer names of versions and steps; tiny files notice them."""
    assert usage.bytes is not None
    return replace(usage, bytes=usage.bytes + RESERVE)


def one_more_is_too_much(keeper: Keeper) -> bool:
    """Return whether no single switch can be added to what the domains may use, within the limits.

    In a small network one switch may bring several kernels to life, so a limit is not always filled. And of bytes,
    fewer switches may take more, because of channels that are constant in some domains: the masks must fit, too.
    """
    meter, limits, opened, masks = keeper.meter(), keeper.limits, keeper.pool.open_DM, keeper.pool.masks()
    if limits.share_used(meter.usage(keeper.pool.fixed_DM)) >= 0.98:
        return True
    before = limits.share_used(meter.usage(opened))
    if limits.share_used(meter.usage(masks)) < min(0.98, before):
        return False  # what may be used is not
    closed = (~opened).any(0).nonzero()[:, 0].tolist()
    for switch in closed[:: max(1, len(closed) // 6)]:
        first = int(keeper.pool.scores_DM[:, switch].argmax())
        for domains_D in (torch.ones(len(opened), dtype=torch.bool), *torch.eye(len(opened), dtype=torch.bool)):
            added = torch.zeros_like(opened)
            added[:, switch] = domains_D
            owned = added & (torch.arange(len(opened)) == first)[:, None]
            usages = [meter.usage(mask_DM) for mask_DM in (opened | added, masks | added, masks | owned)]
            if limits.share_used(usages[0]) > before and all(map(limits.are_kept, usages)):
                return False
    return True
