"""A kept budget: never exceeded and nearly all used, whatever is drawn and whatever training does to the switches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from prunus.budgets.limits import Usage, limits_of
from prunus.bundle.file import bundle_bytes, read_bundle
from prunus.config import Budget
from prunus.errors import RecipeError
from prunus.lowering.pack import pack
from prunus.masks.layout import SwitchLayout
from prunus.methods.costs import dense_costs
from prunus.training.promise import make_keeper
from prunus.training.provenance import domain_entries, provenance
from prunus.training.checkpoint import Position
from tests.makers.drawn_budgets import GRANULARITIES, UNITS, Drawn, draw_budget, draw_case, stir

DRAWS = 1000
TRIALS = [(unit, granularity) for unit in UNITS for granularity in GRANULARITIES]


def measured(drawn: Drawn, tmp_path) -> Usage:
    """Write the file and count what is in it, without the code that keeps budgets."""
    bundle = pack(drawn.net.eval(), drawn.backbone, domain_entries(drawn.identity), provenance(drawn.identity, Position(step=999, total_steps=999)))
    path = tmp_path / "model.prunus"
    path.write_bytes(bundle_bytes(bundle, drawn.identity.recipe.dtype))
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


def largest_switch(layout: SwitchLayout, positions, name: str, itemsize: int, domains: int) -> float:
    """Return what the costliest switch takes of a limit."""
    costs = []
    for conv in layout.convs:
        shape = layout.shape(conv)
        kernels = conv.out_channels * conv.in_channels // (shape[0] * shape[1])
        macs = kernels * conv.kernel_area * positions[conv.name]
        # a switch may bring its channel back: norms of every domain, its row of the classifiers and of ones
        channel = 4 * domains * (2 + 9 * 13 + 5)
        costs.append({"kernels": kernels, "weights": kernels * conv.kernel_area, "macs": macs,
                      "bytes": kernels * conv.kernel_area * itemsize + channel}[name])
    return max(costs)


@pytest.mark.parametrize("seed", range(8))
def test_drawn_budgets(seed: int, tmp_path) -> None:
    short = []
    for number in range(seed, DRAWS, 8):
        rng = np.random.default_rng([15, number])
        unit, granularity = TRIALS[number % len(TRIALS)]
        drawn = draw_case(rng, unit, granularity)
        dense = measured(drawn, tmp_path)
        fixed = dense.bytes - 4 * dense.weights
        drawn_budget = draw_budget(rng, unit, list(drawn.net.domains), {"bytes": dense.bytes, "fixed": fixed, "macs": max(dense.macs)})
        recipe = drawn.identity.recipe.model_copy(update={"budget": Budget.model_validate(drawn_budget)})
        drawn = Drawn(drawn.net, drawn.backbone, drawn.identity.model_copy(update={"recipe": recipe}))
        try:
            keeper = make_keeper(drawn.net, drawn.backbone, drawn.identity)
        except RecipeError as error:
            assert "less than one" in str(error) or "at least that" in str(error)
            continue
        steps = int(rng.integers(1, 6))
        for step in range(steps):
            keeper.advance(20 * step, step / steps)
            stir(drawn.net, rng)
        keeper.finish()
        end = rng.choice(["as it is", "all on", "all off", "stirred"])
        with torch.no_grad():
            if end == "all on": drawn.net.switches.scores_DM.fill_(1.0)
            if end == "all off": drawn.net.switches.scores_DM.fill_(-1.0)
        if end == "stirred": stir(drawn.net, rng)
        keeper.finish()
        used = measured(drawn, tmp_path)
        for line in keeper.limits.lines(used):
            assert line.is_kept, (number, unit, granularity, end, str(line))
        share = keeper.limits.share_used(used)
        if share < 0.98:
            layout = drawn.net.switches.layout
            gaps = [line.limit - line.used < largest_switch(layout, drawn.backbone.probe.positions, line.name, 4, len(drawn.net.domains)) for line in keeper.limits.lines(used)]
            everything = bool(drawn.net.switches.masks().all())
            if not (any(gaps) or everything):
                short.append((number, unit, granularity, end, steps, round(share, 3), [str(l) for l in keeper.limits.lines(used)], [l.name for l in layout.convs]))
    for s in short: print(s)
    assert not short, len(short)
