"""Norms that are estimated again: plain means over training images, the same for the same seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from prunus.data.loading import ImageSet
from prunus.learning import norms
from prunus.learning.feed import DomainData, Feed, make_feeds
from prunus.learning.learner import Learner, network_state
from prunus.learning.norms import norm_jobs, renew_norms
from prunus.masks.network import MultiDomainNet
from tests.makers.tiny_training import CLASSES, PREPROCESS, tiny_net, tiny_recipe

SIZES = [10, 7]


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let three images be many."""
    monkeypatch.setattr(norms, "MOST_IMAGES", 3)


def _data() -> list[DomainData]:
    larger = PREPROCESS.model_copy(update={"resize": 12})  # so that crops differ
    return [DomainData(name, larger, True, _images(size), None) for name, size in zip(CLASSES, SIZES, strict=True)]


def _images(size: int) -> ImageSet:
    return ImageSet(np.random.default_rng(size).integers(0, 256, (size, 3, 12, 12), np.uint8), np.arange(size) % 2)


def _learner(method: str = "union", seed: int = 0) -> tuple[Learner, list[Feed]]:
    recipe = tiny_recipe(method=method, seed=seed)
    learner = Learner(tiny_net(method), recipe)
    return learner, make_feeds(_data(), learner.net.device, recipe)


def _norm_modules(net: MultiDomainNet) -> Iterator[tuple[str, nn.Module]]:
    return ((name, m) for name, m in net.named_modules() if isinstance(m, nn.BatchNorm2d))


def _watch(net: MultiDomainNet) -> dict[str, list[Tensor]]:
    """Return what the inputs of every norm will be, pass by pass."""
    seen: dict[str, list[Tensor]] = defaultdict(list)
    for name, module in _norm_modules(net):
        module.register_forward_pre_hook(lambda _m, inputs, name=name: seen[name].append(inputs[0].double()))
    return seen


def _mean_statistics(passes: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    rows = [x.transpose(0, 1).flatten(1) for x in passes]
    means = torch.stack([row.mean(1) for row in rows]).mean(0)
    return means, torch.stack([row.var(1) for row in rows]).mean(0)  # unbiased, as torch keeps it


def _running(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items() if "running" in name or "num_batches" in name}


@pytest.mark.parametrize("method", ["union", "finetune", "taps"])
def test_the_statistics_are_the_means_over_all_batches_of_a_domain(method: str) -> None:
    learner, feeds = _learner(method)
    seen = _watch(learner.net)
    renew_norms(learner, feeds, SIZES)
    counts = [sum(job.parts[0][0] == domain for job in norm_jobs(SIZES, 0)) for domain in range(2)]
    assert set(seen) == {"network.1"}
    for domain, passes in enumerate((seen["network.1"][: counts[0]], seen["network.1"][counts[0] :])):
        mean, var = _mean_statistics(passes)
        tensors = learner.net.tensors(learner.net.domains[domain])
        torch.testing.assert_close(tensors["1.running_mean"].double(), mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(tensors["1.running_var"].double(), var, rtol=1e-5, atol=1e-7)
        assert int(tensors["1.num_batches_tracked"]) == counts[domain] == len(passes)


def test_norms_inside_an_adapter_are_estimated_too() -> None:
    learner, feeds = _learner("series_adapters")
    seen = _watch(learner.net)
    renew_norms(learner, feeds, SIZES)
    inside = [name for name, _ in _norm_modules(learner.net) if name.startswith("adapter_list")]
    assert len(inside) == 4  # two convolutions, two domains
    for name in inside:
        mean, var = _mean_statistics(seen[name])
        buffers = dict(learner.net.get_submodule(name).named_buffers())
        torch.testing.assert_close(buffers["running_mean"].double(), mean, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(buffers["running_var"].double(), var, rtol=1e-5, atol=1e-7)


def test_the_statistics_depend_on_the_seed_and_not_on_those_before() -> None:
    states = []
    for seed, start in ((0, 0.0), (0, 100.0), (1, 0.0)):
        learner, feeds = _learner(seed=seed)
        for tensor in _running_buffers(learner):
            tensor.fill_(start)
        torch.manual_seed(int(start))
        renew_norms(learner, feeds, SIZES)
        states.append(_running(network_state(learner.net)))
    first, again, other = states
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def _running_buffers(learner: Learner) -> list[Tensor]:
    return [tensor for name, tensor in network_state(learner.net).items() if "running" in name or "num_b" in name]


def test_nothing_but_the_statistics_changes() -> None:
    learner, feeds = _learner()
    before = {name: tensor.clone() for name, tensor in learner.tensors().items()}
    backbone = {name: tensor.clone() for name, tensor in learner.net.network.state_dict().items()}
    renew_norms(learner, feeds, SIZES)
    changed = {name for name, tensor in learner.tensors().items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all("running" in name or "num_batches" in name for name in changed)
    assert all(torch.equal(tensor, backbone[name]) for name, tensor in learner.net.network.state_dict().items())
    assert learner.net.training
    assert all(tensor.grad is None for tensor in learner.net.parameters())


@pytest.mark.parametrize("method", ["feature", "piggyback", "da3"])
def test_norms_that_all_domains_share_stay_as_they_are(method: str) -> None:
    learner, feeds = _learner(method)
    seen = _watch(learner.net)
    before = {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}
    renew_norms(learner, feeds, SIZES)
    assert seen == {}  # nothing was computed
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.net.state_dict().items())


def test_the_momentum_is_restored_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, feeds = _learner()
    (norm,) = [module for _, module in _norm_modules(learner.net)]
    assert norm.momentum == 0.1
    renew_norms(learner, feeds, SIZES)
    assert norm.momentum == 0.1
    monkeypatch.setattr(learner.net, "forward", _fail)
    with pytest.raises(RuntimeError, match="on purpose"):
        renew_norms(learner, feeds, SIZES)
    assert norm.momentum == 0.1


def _fail(*_: object) -> Tensor:
    raise RuntimeError("on purpose")


@pytest.mark.parametrize(
    ("size", "batches", "largest"), [(140, 8, 140), (258, 8, 129), (800, 8, 200), (3000, 12, 250), (99_999, 20, 256)]
)
def test_small_domains_are_used_several_times_and_large_ones_in_part(
    monkeypatch: pytest.MonkeyPatch, size: int, batches: int, largest: int
) -> None:
    monkeypatch.undo()  # the real limits
    jobs = list(norm_jobs([size], 0))
    assert len(jobs) == batches
    indices = [job.parts[0][1] for job in jobs]
    assert max(map(len, indices)) == largest
    assert min(map(len, indices)) >= largest - 1
    counts = np.bincount(np.concatenate(indices), minlength=size)
    assert counts.max() - counts.min() <= 1
    assert len({job.step_seed for job in jobs}) == batches  # every batch has crops of its own
