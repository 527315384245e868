"""A kept budget: never exceeded and nearly all used, whatever is drawn and whatever training does to the switches."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import Usage
from prunus.errors import RecipeError
from prunus.granularity import Granularity
from prunus.lowering.trace import trace
from prunus.parallel.processes import ALONE, Processes
from prunus.training.promise import make_keeper
from tests.makers.drawn_budgets import GRANULARITIES, UNITS, Drawn, draw_budget, draw_case, start_again, stir
from tests.makers.kept_budgets import exceeded, measured, one_more_is_too_much, with_reserve
from tests.makers.process_groups import Results, run_processes

DRAWS = int(os.environ.get("PRUNUS_DRAWS", "120"))  # make sweep draws 1,000
PARTS = 5  # for several processes
KERNELS_AND_CHANNELS = GRANULARITIES[:3]
BLOCKS = GRANULARITIES[3:]
ENDS = ("as it is", "all on", "all off", "stirred")


def _train_by_chance(keeper: Keeper, drawn: Drawn, rng: np.random.Generator) -> None:
    steps = int(rng.integers(1, 6))
    for step in range(steps):
        keeper.advance(20 * step, step / steps)
        stir(drawn.net, rng)
    keeper.finish()
    ending = rng.choice(ENDS)
    with torch.no_grad():
        if ending == "all on":
            keeper.pool.scores_DM.fill_(1.0)
        if ending == "all off":
            keeper.pool.scores_DM.fill_(-1.0)
    if ending == "stirred":
        stir(drawn.net, rng)
    keeper.finish()


def _keeper_of_a_drawn_budget(drawn: Drawn, unit: str, dense: Usage, rng: np.random.Generator) -> tuple[Keeper, Drawn]:
    """Draw a budget; raise every limit that is refused to the value that the refusal names, or above it."""
    budget = draw_budget(rng, unit, list(drawn.net.domains), dense)
    for _ in range(3):  # one refusal for all limits, and perhaps another for the bytes that name the new ones
        limited = drawn.with_budget(budget)
        try:
            keeper = make_keeper(limited.net, limited.backbone, limited.identity)
        except RecipeError as error:
            budget |= _raised(budget, str(error), rng)
            continue
        assert keeper is not None
        return keeper, limited
    raise AssertionError(f"no value that a refusal names can be kept: {budget}")


def _raised(budget: dict[str, object], refusal: str, rng: np.random.Generator) -> dict[str, object]:
    """Return the limits that a refusal names, as it names them or somewhat larger."""
    found = re.findall(r"budget\.(\w+)(?:\.(\w+))? to at least ([^ ,]+)", refusal)
    assert found, refusal
    raised: dict[str, object] = {}
    for name, domain, least in found:
        above = float(rng.choice([1.0, rng.uniform(1, 3)]))  # often exactly the smallest
        value = min(1.0, float(least) * above) if name in ("kernels", "weights") else int(int(least) * above)
        own = raised.get(name, budget[name])
        raised[name] = {**own, domain: value} if isinstance(own, dict) else value
    return raised


@pytest.mark.slow
@pytest.mark.parametrize("granularities", [KERNELS_AND_CHANNELS, BLOCKS], ids=lambda names: names[0])
@pytest.mark.parametrize("part", range(PARTS))
def test_drawn_budgets_are_kept_and_used(
    part: int, granularities: tuple[Granularity, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunus.lowering.build.trace", lru_cache(maxsize=4)(trace))  # half of the time of a draw
    path = tmp_path / "model.prunus"
    draws = DRAWS // len(UNITS) * len(granularities) // len(KERNELS_AND_CHANNELS)
    for number in range(part, draws, PARTS):
        rng = np.random.default_rng([15 + GRANULARITIES.index(granularities[0]), number])
        drawn = draw_case(rng, granularities[number % len(granularities)])
        dense = measured(drawn, path)
        for unit in UNITS:
            start_again(drawn.net, rng)
            keeper, limited = _keeper_of_a_drawn_budget(drawn, unit, dense, rng)
            _train_by_chance(keeper, limited, rng)
            used = measured(limited, path)
            budget, network = limited.identity.recipe.budget, drawn.backbone.network
            assert exceeded(budget, used, network, drawn.net.domains) == [], (number, unit)
            share = keeper.limits.share_used(with_reserve(used))
            assert share >= 0.98 or one_more_is_too_much(keeper), (number, unit, share)


@pytest.mark.parametrize("wanted", [1, 20, 300, 1000])
def test_the_refusal_names_a_budget_that_can_be_kept(wanted: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(wanted)
    drawn = draw_case(rng, "kernel")
    with pytest.raises(RecipeError, match=r"cannot be kept.*set budget\.bytes to at least \d+$") as caught:
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget({"bytes": wanted}).identity)
    named = int(str(caught.value).split()[-1])
    with pytest.raises(RecipeError, match="to at least"):
        make_keeper(drawn.net, drawn.backbone, drawn.with_budget({"bytes": named - 1}).identity)
    drawn = drawn.with_budget({"bytes": named})
    keeper = make_keeper(drawn.net, drawn.backbone, drawn.identity)
    assert keeper is not None
    _train_by_chance(keeper, drawn, rng)
    assert keeper.limits.are_kept(measured(drawn, tmp_path / "model.prunus"))


def test_a_pool_shrinks_on_its_schedule_and_then_stays() -> None:
    rng = np.random.default_rng(7)
    drawn = draw_case(rng, "kernel", until=0.5).with_budget({"kernels": 0.4})
    keeper = make_keeper(drawn.net, drawn.backbone, drawn.identity)
    assert keeper is not None
    sizes = []
    for step in range(0, 100, 5):
        final = keeper.advance(step, step / 100)
        assert final == (step == 50)
        sizes.append(int(keeper.pool.open_DM.any(0).sum()))
    total = keeper.pool.layout.num_switches
    assert sizes[0] == total  # nothing is closed before the first step
    assert all(before >= after for before, after in pairwise(sizes[:10]))
    assert len(set(sizes[10:])) == 1  # final: kernels that nothing reads were exchanged for others
    assert keeper.usage().kernels == int(0.4 * total)  # of those that something reads; others may be open too
    changes = [step for step, (before, after) in enumerate(pairwise(sizes), 1) if before != after]
    assert set(changes) <= {4, 8, 10}  # every 20 steps, and when it becomes final
    at_20 = total * (0.4 + 0.6 * (1 - 0.4) ** 3)
    assert abs(sizes[4] - at_20) <= 1


def test_a_pool_that_was_saved_when_final_stays_final() -> None:
    rng = np.random.default_rng(7)
    drawn = draw_case(rng, "kernel").with_budget({"kernels": 0.4})
    first = make_keeper(drawn.net, drawn.backbone, drawn.identity)
    assert first is not None
    first.finish()
    opened = first.pool.open_DM.clone()
    second = make_keeper(drawn.net, drawn.backbone, drawn.identity)  # as after a restart
    assert second is not None
    assert second.is_final()
    assert not second.advance(0, 1.0)
    assert torch.equal(second.pool.open_DM, opened)


def _finish_apart(processes: Processes) -> Results:
    """Finish a pool in a process whose weights and scores differ from those of the others, as machines may round."""
    rng = np.random.default_rng(7)
    drawn = draw_case(rng, "kernel").with_budget({"kernels": 0.4})
    stir(drawn.net, np.random.default_rng(processes.rank))
    keeper = make_keeper(drawn.net, drawn.backbone, drawn.identity, processes)
    assert keeper is not None
    keeper.advance(20, 0.01)
    shrunk = keeper.pool.open_DM.clone()
    keeper.finish()
    return {"shrunk": shrunk, "open": keeper.pool.open_DM, "fixed": keeper.pool.fixed_DM}


@pytest.mark.slow
def test_all_processes_have_the_pool_of_the_first(tmp_path: Path) -> None:
    first, second = run_processes(_finish_apart, 2, tmp_path)
    assert all(torch.equal(first[name], second[name]) for name in first)
    alone = _finish_apart(ALONE)
    assert all(torch.equal(first[name], alone[name]) for name in first)
    assert not bool(first["shrunk"].all())
