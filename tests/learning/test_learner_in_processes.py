"""Two processes take the steps of one: every tensor agrees after 20 steps in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

import pytest
import torch

from prunus.backbone.probe import probe_network
from prunus.backbone.wrn import WideResNet
from prunus.backbone.zoo import Backbone
from prunus.config import Strategy
from prunus.data.schedule import Parts, schedule
from prunus.images import Preprocess
from prunus.learning.learner import Batch, Learner
from prunus.methods.table import adapt
from prunus.parallel.processes import ALONE, Processes
from prunus.recipes import parse_recipe
from tests.makers.process_groups import Results, run_processes

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["u", "v"]}
SIZES = [11, 14, 9]
STEPS = 20
BATCH = 5
SIZE = 8


@dataclass(frozen=True)
class Case:
    """A method and a strategy."""

    method: str = "union"
    strategy: Strategy = "alternate"
    accumulate: int = 1
    processes: tuple[int, ...] = (2,)


CASES = {
    "round robin": Case(strategy="round_robin"),
    "alternate": Case(),
    "individual": Case(strategy="individual"),
    # parts of two images are computed whole by three processes
    "mixed": Case(strategy="mixed", processes=(2, 3)),
    "in two parts": Case(accumulate=2, processes=(2, 3)),
    **{
        method: Case(method) for method in ("finetune", "early_exits", "series_adapters", "taps", "da3", "affine_masks")
    },
}


def _learner(case: Case, processes: Processes) -> Learner:
    torch.manual_seed(0)
    network = WideResNet(blocks=1, stem=4, widths=(4, 6, 8))
    preprocess = Preprocess(size=SIZE, resize=SIZE, mean=(0, 0, 0), std=(1, 1, 1))
    backbone = Backbone("tiny", network, preprocess, probe_network(network, SIZE))
    content = {
        "preset": "paper",
        "backbone": "wrn14_2",
        "domains": list(CLASSES),
        "budget": 0.6,
        "method": case.method,
        "training": {"lr": 0.05, "switch_lr": 0.002, "dual_rate": 0.1, "accumulate": case.accumulate}
        | {"label_smoothing": 0.1, "weight_decay": 1e-3},
    }
    return Learner(adapt(backbone, CLASSES, case.method).double(), parse_recipe(content), processes)


@cache
def _images(domain: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(domain)
    labels = torch.arange(SIZES[domain]) % len(list(CLASSES.values())[domain])
    noise = torch.randn(SIZES[domain], 3, SIZE, SIZE, generator=generator, dtype=torch.float64)
    return noise * 0.3 + labels[:, None, None, None] * 1.5 - 0.75, labels


def _batches(parts: Parts, learner: Learner) -> Iterator[Batch]:
    for domain, indices in parts:
        rows = [row for portion in learner.portions(len(indices)) for row in portion.rows]
        images, labels = _images(domain)
        own = torch.from_numpy(indices[rows])
        weights = torch.linspace(0.5, 1.5, len(list(CLASSES.values())[domain]), dtype=torch.float64)
        yield Batch(domain, images[own], labels[own], weights, total=len(indices))


def _run_case(case: Case, processes: Processes) -> Results:
    learner = _learner(case, processes)
    for step in islice(schedule(case.strategy, SIZES, BATCH, 10, seed=3), STEPS):
        learner.step(list(_batches(step.parts, learner)))
    return learner.tensors() | {"tally": learner.whole_tally()}


def _run_cases(processes: Processes) -> Results:
    return {
        f"{name}: {key}": tensor.detach()
        for name, case in CASES.items()
        if processes.world in case.processes
        for key, tensor in _run_case(case, processes).items()
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Results]]:
    """All tensors after 20 steps, by number of processes and rank."""
    return {world: run_processes(_run_cases, world, tmp_path_factory.mktemp("ranks")) for world in (2, 3)}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_several_processes_take_the_steps_of_one(name: str, ranks: dict[int, list[Results]]) -> None:
    expected = _run_case(CASES[name], ALONE)
    assert float(expected["tally"][:, 2].sum()) >= STEPS * 4
    for world in CASES[name].processes:
        for found in ranks[world]:
            names = {key.removeprefix(f"{name}: ") for key in found if key.startswith(f"{name}: ")}
            assert names == expected.keys()
            for key, tensor in expected.items():
                ours = found[f"{name}: {key}"]
                torch.testing.assert_close(ours, tensor.detach(), rtol=0, atol=1e-9, msg=f"{key} differs")
                assert torch.equal(ours, ranks[world][0][f"{name}: {key}"]), key
