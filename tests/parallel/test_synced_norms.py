"""Norms of several processes against torch's own norm of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunus.methods.frugal_backward import FrugalBackward
from prunus.parallel.processes import ALONE, Processes
from prunus.parallel.synced_norms import SyncedNorms
from tests.makers.process_groups import Results, run_processes

STEPS = 3


@dataclass(frozen=True)
class Case:
    """A norm, and how many images of which shape each process has."""

    norm: Callable[[], nn.Module]
    shape: tuple[int, ...]
    shares: tuple[int, ...]
    learns_input: bool = True
    is_frugal: bool = False

    def images(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(step)
        return 3 + 2 * torch.randn(sum(self.shares), *self.shape, generator=generator, dtype=torch.float64)

    def rows(self, rank: int) -> slice:
        ends = [0, *accumulate(self.shares)]
        return slice(ends[rank], ends[rank + 1])


def _random(norm: nn.Module) -> nn.Module:
    torch.manual_seed(5)
    for tensor in norm.parameters():
        nn.init.normal_(tensor, 1.0)
    return norm.double()


CASES = {
    "images": Case(lambda: nn.BatchNorm2d(4), (4, 5, 3), (4, 4)),
    "uneven shares": Case(lambda: nn.BatchNorm2d(4), (4, 3, 3), (5, 2)),
    "one image each": Case(lambda: nn.BatchNorm2d(3), (3, 2, 2), (1, 1)),
    "features": Case(lambda: nn.BatchNorm1d(6), (6,), (3, 1)),
    "sequences": Case(lambda: nn.BatchNorm1d(6), (6, 7), (2, 3)),
    "cumulative average": Case(lambda: nn.BatchNorm2d(3, momentum=None), (3, 4, 4), (3, 2)),
    "no weights": Case(lambda: nn.BatchNorm2d(3, affine=False), (3, 4, 4), (3, 2)),
    "no running statistics": Case(lambda: nn.BatchNorm2d(3, track_running_stats=False), (3, 4, 4), (3, 2)),
    "input without gradient": Case(lambda: nn.BatchNorm2d(3), (3, 4, 4), (3, 2), learns_input=False),
    "inside another mode": Case(lambda: nn.BatchNorm2d(3), (3, 4, 4), (3, 2), is_frugal=True),
    "three processes": Case(lambda: nn.BatchNorm2d(4), (4, 3, 3), (4, 1, 3)),
}


def _compute(case: Case, rows: slice, processes: Processes) -> Results:
    norm = _random(case.norm())
    results: Results = {}
    for step in range(STEPS):
        x = case.images(step)[rows].requires_grad_(case.learns_input)
        with SyncedNorms(processes):
            if case.is_frugal:
                with FrugalBackward():
                    y = norm(x)
            else:
                y = norm(x)
        if y.requires_grad:
            loss = (y * case.images(100 + step)[rows]).sum() + (y**3).sum()
            loss.backward()
        results |= {f"y{step}": y.detach()} | ({f"dx{step}": x.grad} if x.grad is not None else {})
    results |= {f"gradient/{name}": p.grad for name, p in norm.named_parameters() if p.grad is not None}
    return results | {f"buffer/{name}": buffer for name, buffer in norm.named_buffers()}


def _run_cases(processes: Processes) -> Results:
    results: Results = {}
    for name, case in CASES.items():
        if len(case.shares) == processes.world:
            found = _compute(case, case.rows(processes.rank), processes)
            results |= {f"{name}: {key}": tensor for key, tensor in found.items()}
    return results | {f"half: {key}": tensor for key, tensor in _half(processes).items()}


def _half(processes: Processes) -> Results:
    """Normalize bfloat16 images far from 0, as in autocast."""
    case = Case(lambda: nn.BatchNorm2d(3), (3, 8, 8), (4,) * processes.world)
    norm = nn.BatchNorm2d(3)
    x = (50 + case.images(0)[case.rows(processes.rank)]).bfloat16().requires_grad_()
    with SyncedNorms(processes):
        y = norm(x)
    (y.float() * case.images(1)[case.rows(processes.rank)].float()).sum().backward()
    assert x.grad is not None
    return {"y": y.detach(), "dx": x.grad} | dict(norm.named_buffers())


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, list[Results]]]:
    """Results of all cases, by number of processes and rank."""
    yield {world: run_processes(_run_cases, world, tmp_path_factory.mktemp("ranks")) for world in (2, 3)}


def _join(results: list[Results], prefix: str) -> Results:
    """Put shares together: rows one after another, gradients of weights summed, statistics as they are."""
    joined = {}
    for key in [key for key in results[0] if key.startswith(f"{prefix}: ")]:
        tensors = [result[key] for result in results]
        name = key.removeprefix(f"{prefix}: ")
        if name.startswith("gradient"):
            joined[name] = torch.stack(tensors).sum(0)
        elif name.startswith(("y", "dx")):
            joined[name] = torch.cat(tensors)
        else:
            assert all(torch.equal(tensor, tensors[0]) for tensor in tensors), key
            joined[name] = tensors[0]
    return joined


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_norms_of_shares_equal_torchs_norm_of_the_whole_batch(name: str, ranks: dict[int, list[Results]]) -> None:
    case = CASES[name]
    found = _join(ranks[len(case.shares)], name)
    whole: Results = {}
    norm = _random(case.norm())
    for step in range(STEPS):
        x = case.images(step).requires_grad_(case.learns_input)
        y = norm(x)
        if y.requires_grad:
            ((y * case.images(100 + step)).sum() + (y**3).sum()).backward()
        whole |= {f"y{step}": y.detach()} | ({f"dx{step}": x.grad} if x.grad is not None else {})
    whole |= {f"gradient/{key}": p.grad for key, p in norm.named_parameters() if p.grad is not None}
    whole |= {f"buffer/{key}": buffer for key, buffer in norm.named_buffers()}
    assert found.keys() == whole.keys()
    for key, tensor in whole.items():
        torch.testing.assert_close(found[key], tensor, rtol=1e-12, atol=1e-12, msg=f"{key} differs")


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_statistics_of_bfloat16_are_kept_in_float32(world: int, ranks: dict[int, list[Results]]) -> None:
    found = _join(ranks[world], "half")
    case = Case(lambda: nn.BatchNorm2d(3), (3, 8, 8), (4,) * world)
    x = (50 + case.images(0)).bfloat16().double().requires_grad_()
    norm = nn.BatchNorm2d(3).double()
    y = norm(x)
    (y * case.images(1)).sum().backward()
    assert x.grad is not None
    assert (found["y"].dtype, found["dx"].dtype, found["running_var"].dtype) == (
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
    )
    torch.testing.assert_close(found["y"].double(), y.detach(), rtol=0.01, atol=0.01)
    torch.testing.assert_close(found["dx"].double(), x.grad, rtol=0.02, atol=0.02)
    torch.testing.assert_close(found["running_mean"].double(), norm.running_mean, rtol=1e-6, atol=0)
    torch.testing.assert_close(found["running_var"].double(), norm.running_var, rtol=1e-5, atol=0)


def test_other_functions_and_norms_in_evaluation_are_unchanged() -> None:
    norm = nn.BatchNorm2d(3).eval()
    x = torch.randn(2, 3, 4, 4)
    expected = norm(F.relu(x))
    with SyncedNorms(Processes(world=2)):  # an exchange would fail: there is no other process
        assert torch.equal(norm(F.relu(x)), expected)


def test_one_process_alone_computes_torchs_norm() -> None:
    case = CASES["images"]
    found = _compute(case, slice(None), ALONE)
    norm = _random(case.norm())
    torch.testing.assert_close(found["y0"], norm(case.images(0)).detach(), rtol=1e-12, atol=1e-12)
