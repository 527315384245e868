"""Blocks of four inputs, trained on real images in a network of 1x1 convolutions, and measured by accuracy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import prunus
from prunus.arrays import Bools
from prunus.backbone.zoo import ZOO, ZooEntry
from prunus.bundle.file import read_bundle
from prunus.config import Recipe
from prunus.masks.network import MultiDomainNet
from prunus.measure.evaluation import Evaluation
from prunus.recipes import parse_recipe
from prunus.runtime.native_engine import NativeEngine
from prunus.runtime.numpy_engine import NumpyEngine
from prunus.training.run import open_run
from tests.makers.kept_budgets import count_file
from tests.makers.masked_networks import switch_masks

pytestmark = pytest.mark.slow  # trains

SIZE = 16
DOMAINS = ("fashion", "fruits")


class _Bottleneck(nn.Module):
    """1x1, 3x3 by channel and 1x1, as in MobileNetV2."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU())
        depthwise = nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False)
        self.mix = nn.Sequential(depthwise, nn.BatchNorm2d(inner), nn.ReLU())
        self.project = nn.Sequential(nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.project(self.mix(self.expand(x)))  # type: ignore[no-any-return]


def _network() -> nn.Module:
    """Return a network most of whose kernels are in 1x1 convolutions, some with a last block of two inputs."""
    torch.manual_seed(0)
    stem = (nn.Conv2d(3, 22, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(22), nn.ReLU())
    wider = (nn.Conv2d(22, 40, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU(), nn.MaxPool2d(2))
    blocks = (_Bottleneck(22, 64), *wider, _Bottleneck(40, 96))
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def _recipe(method: str, granularity: str) -> Recipe:
    return parse_recipe(
        {
            "backbone": {"name": "bottlenecks", "weights": "random"},
            "domains": [f"demo:{name}" for name in DOMAINS],
            "method": method,
            "granularity": granularity,
            "budget": 0.25,
            "training": {"epochs": 10, "lr": 0.05, "weight_lr": 0.05, "switch_lr": 3e-4},
        }
    )


@dataclass(frozen=True)
class _Trained:
    """A run: its results, what its file holds, how far the file's logits are, and the usage of its blocks."""

    results: Evaluation
    kernels: int
    distances: dict[str, float]
    masks: dict[str, Bools]  # layer -> (D, O, I)


@pytest.fixture(scope="module", name="trained")
def trained_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], _Trained]]:
    """Train each method and granularity once."""
    folder = tmp_path_factory.mktemp("blocks")

    @cache
    def train(method: str, granularity: str) -> _Trained:
        run = prunus.train(_recipe(method, granularity), folder / f"{method}-{granularity}", device="cpu")
        file = prunus.prune(run, run / "model.prunus")
        net = open_run(run, "cpu").net.eval()
        return _Trained(
            prunus.evaluate(run, device="cpu"), count_file(file).kernels, _apart(net, file), switch_masks(net)
        )

    entry = ZooEntry(_network, "none", SIZE, 0.5, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), "nothing")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # which is fastest for it
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ZOO, "bottlenecks", entry)
        yield train
    torch.set_num_threads(threads)


@torch.no_grad()
def _apart(net: MultiDomainNet, file: Path) -> dict[str, float]:
    """Return how far the logits of a file are from those of its run, relative to the largest."""
    bundle = read_bundle(file)
    images = torch.randn(4, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    found = {}
    for domain in DOMAINS:
        expected = net(images, domain).numpy()
        for engine in (NumpyEngine(bundle), NativeEngine(bundle)):
            apart = np.abs(engine.logits(images.numpy(), domain) - expected).max() / np.abs(expected).max()
            found[f"{domain} by {type(engine).__name__}"] = float(apart)
    return found


def test_a_quarter_in_blocks_is_kept_exactly_and_nearly_as_accurate_as_a_quarter_of_the_kernels(
    trained: Callable[[str, str], _Trained],
) -> None:
    blocks, kernels = trained("exact", "1x4"), trained("exact", "kernel")
    total = sum(mask[0].size for mask in blocks.masks.values())
    assert blocks.results.budget_kept
    assert 0.98 * 0.25 * total <= blocks.kernels <= 0.25 * total
    assert max(blocks.distances.values()) < 1e-4
    assert blocks.results.mean_accuracy > kernels.results.mean_accuracy - 0.05
    assert blocks.results.mean_accuracy > 0.7  # chance is 7 %


def test_blocks_learn_with_the_losses_of_the_paper_too(trained: Callable[[str, str], _Trained]) -> None:
    blocks = trained("union", "1x4")
    assert blocks.results.mean_accuracy > 0.3
    assert max(blocks.distances.values()) < 1e-4
    for layer, mask_DOI in blocks.masks.items():
        if layer in ("0", "3.mix.0"):
            continue
        for first in range(0, mask_DOI.shape[2], 4):
            block = mask_DOI[:, :, first : first + 4]
            assert (block == block[:, :, :1]).all(), layer
