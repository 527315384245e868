"""Real trainings of drawn budgets: no finished file exceeds its budget or leaves much of it unused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import prunus
from prunus.backbone.wrn import WideResNet
from prunus.backbone.zoo import ZOO, ZooEntry, load_backbone
from prunus.budgets.keeper import Keeper
from prunus.budgets.limits import Usage
from prunus.bundle.file import read_bundle
from prunus.checkpoints.checkpoint import read_checkpoint
from prunus.config import BackboneChoice, Budget, Recipe
from prunus.errors import RecipeError, TrainingInterrupted
from prunus.methods.costs import dense_costs
from prunus.recipes import parse_recipe
from prunus.run_folder import RunFolder
from prunus.training.observers import Observer
from prunus.training.promise import make_keeper
from prunus.training.run import open_run, resume_run, start_run
from tests.makers.drawn_budgets import GRANULARITIES, UNITS, draw_budget
from tests.makers.kept_budgets import count_file, exceeded, one_more_is_too_much, with_reserve
from tests.makers.stopping import StopAt

pytestmark = pytest.mark.slow  # trains

TRIALS = [(unit, granularity) for unit in UNITS for granularity in GRANULARITIES]  # 32
MakeDomain = Callable[..., Path]
BESIDE = 9000  # bytes of a file beside its weights, roughly


@pytest.fixture(autouse=True)
def tiny_backbone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A network of ten convolutions in the zoo, and one thread, which is fastest for it."""
    entry = ZooEntry(lambda: WideResNet(1, 4, (4, 6, 8)), "none", 16, 0.5, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "nothing")
    monkeypatch.setitem(ZOO, "tiny", entry)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclass(frozen=True)
class _Case:
    """What is drawn besides the budget."""

    content: dict[str, object]
    domains: list[str]

    def recipe(self, budget: dict[str, object]) -> Recipe:
        return parse_recipe(self.content | {"budget": budget})


def _case(rng: np.random.Generator, granularity: str, make_domain: MakeDomain) -> _Case:
    """Draw one to four domains of different sizes, and one epoch of a few steps."""
    names = [f"d{index}" for index in range(int(rng.integers(1, 5)))]
    paths = [
        make_domain(name, ["a", "b", "c"][: int(rng.integers(2, 4))], train=int(rng.integers(3, 9)), size=(16, 16))
        for name in names
    ]
    method = {"name": "exact", "granularity": granularity, "until": float(rng.uniform(0.2, 1))}
    method["weights"] = str(rng.choice(["trained", "frozen"]))
    content: dict[str, object] = {
        "backbone": {"name": "tiny", "weights": "random"},
        "domains": [str(path) for path in paths],
        "method": method,
        "dtype": str(rng.choice(["float32", "float16", "bfloat16"])),
        "seed": int(rng.integers(1000)),
        "training": {"epochs": 1, "batch_size": int(rng.integers(2, 9)), "lr": 0.05, "switch_lr": 0.01},
    }
    return _Case(content, names)


def _dense(domains: list[str]) -> Usage:
    costs = dense_costs(load_backbone(BackboneChoice(name="tiny", weights="random")))
    weights = costs.dense_weights()
    return Usage(costs.num_kernels(), weights, BESIDE + 4 * weights, (costs.dense_macs(),) * len(domains))


def _keeper(run: Path) -> Keeper:
    opened = open_run(run, device="cpu")
    keeper = make_keeper(opened.net, opened.backbone, opened.checkpoint.identity)
    assert keeper is not None
    return keeper


def _train(case: _Case, unit: str, rng: np.random.Generator, out: Path) -> tuple[Path, Budget]:
    """Draw budgets until one is not refused, and train it."""
    dense = _dense(case.domains)
    least = 0.1
    while True:
        recipe = case.recipe(draw_budget(rng, unit, case.domains, dense, least))
        try:
            return prunus.train(recipe, out, device="cpu"), recipe.budget
        except RecipeError as error:
            assert "to at least" in str(error)  # before anything was trained
            assert not out.exists() or not any(out.iterdir())
            least **= 0.6


@pytest.mark.parametrize(("unit", "granularity"), TRIALS)
def test_a_budget_is_kept_and_used_by_the_file_of_one_epoch(
    unit: str, granularity: str, make_domain: MakeDomain, tmp_path: Path
) -> None:
    rng = np.random.default_rng([15, TRIALS.index((unit, granularity))])  # type: ignore[arg-type]
    case = _case(rng, granularity, make_domain)
    run, budget = _train(case, unit, rng, tmp_path / "run")
    used = count_file(prunus.prune(run, tmp_path / "model.prunus"))
    assert exceeded(budget, used, ZOO["tiny"].build(), case.domains) == []
    keeper = _keeper(run)
    assert keeper.limits.share_used(with_reserve(used)) >= 0.98 or one_more_is_too_much(keeper)
    evaluation = prunus.evaluate(run)
    assert evaluation.budget_kept
    folder = RunFolder(run)
    ending, last = folder.read_ending(), folder.epochs()[-1]
    assert ending is not None  # and train has said the same
    for usages in (ending.domains, last.domains):
        assert {name: domain.usage for name, domain in usages.items()} == pytest.approx(
            {name: domain.usage for name, domain in evaluation.domains.items()}
        )
    assert ending.union == last.union == pytest.approx(evaluation.union)


class _Noted(Observer):
    def __init__(self) -> None:
        self.final: list[str] = []

    def noted(self, message: str) -> None:
        if "final size" in message:
            self.final.append(message)


@pytest.mark.parametrize("step", [1, 4, 5, 7])
def test_a_run_stopped_before_at_or_after_its_final_size_ends_the_same(
    step: int, make_domain: MakeDomain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunus.budgets.keeper.EVERY", 2)
    paths = [str(make_domain(name, train=4, size=(16, 16))) for name in ("one", "two")]
    recipe = parse_recipe(
        {
            "backbone": {"name": "tiny", "weights": "random"},
            "domains": paths,
            "method": "exact",
            "budget": {"kernels": 0.4, "macs": "20 k"},
            "training": {"epochs": 2, "batch_size": 4, "lr": 0.05, "switch_lr": 0.01},
        }
    )
    noted = _Noted()
    start_run(recipe, tmp_path / "straight", [noted], "cpu")
    assert len(noted.final) == 1
    with pytest.raises(TrainingInterrupted, match=f"saved at step {step} of 8"):
        start_run(recipe, tmp_path / "stopped", [StopAt(step)], "cpu")
    stopped = read_checkpoint(RunFolder(tmp_path / "stopped").checkpoint).tensors
    fixed = next(tensor for name, tensor in stopped.items() if name.endswith("fixed_DM"))
    assert bool(fixed.any()) == (step > 4)  # half of the steps are before
    resume_run(tmp_path / "stopped", device="cpu")
    ours, theirs = (read_checkpoint(RunFolder(tmp_path / n).checkpoint).tensors for n in ("straight", "stopped"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    first, second = (prunus.prune(tmp_path / name, tmp_path / f"{name}.prunus") for name in ("straight", "stopped"))
    assert first.read_bytes() == second.read_bytes()
    assert read_bundle(first).domains == ("one", "two")
