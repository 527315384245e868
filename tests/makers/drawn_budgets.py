"""Small random networks, domains and budgets, to be trained by chance instead of images."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from prunus.backbone.probe import probe_network
from prunus.backbone.zoo import Backbone
from prunus.budgets.limits import Usage
from prunus.checkpoints.checkpoint import Identity
from prunus.config import Budget
from prunus.granularity import Granularity
from prunus.images import Preprocess
from prunus.masks.network import MultiDomainNet
from prunus.masks.pool import PooledSwitches
from prunus.methods.exact import Options
from prunus.methods.table import adapt
from prunus.recipes import parse_recipe

SIZE = 8
PREPROCESS = Preprocess(size=SIZE, resize=SIZE, mean=(0, 0, 0), std=(1, 1, 1))
GRANULARITIES: tuple[Granularity, ...] = ("kernel", "filter", "input_channel", "1x4")
KINDS = ("plain", "residual", "depthwise", "pointwise")


@dataclass(frozen=True)
class Sizes:
    """The layers that a network has for certain, the most that are drawn besides, and the range of its channels."""

    certain: tuple[str, ...] = ()
    most_layers: int = 3
    channels: tuple[int, int] = (2, 5)


SIZES = {"1x4": Sizes(("pointwise",), 2, (5, 11))}  # several blocks, the last of them often shorter
UNITS = ("kernels", "weights", "bytes", "macs", "macs by domain", "kernels and macs", "bytes and macs", "all")


class _Residual(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.norm(self.conv(x)))


@dataclass(frozen=True)
class Drawn:
    """A network with its backbone and the identity of its run."""

    net: MultiDomainNet
    backbone: Backbone
    identity: Identity

    def with_budget(self, budget: dict[str, object]) -> Drawn:
        """Return the same network with another budget."""
        recipe = self.identity.recipe.model_copy(update={"budget": Budget.model_validate(budget)})
        return replace(self, identity=self.identity.model_copy(update={"recipe": recipe}))


def draw_network(rng: np.random.Generator, sizes: Sizes = Sizes()) -> nn.Module:  # noqa: B008  # frozen
    """Draw a plain, residual, depthwise or pointwise network of one to four convolutions."""
    torch.manual_seed(int(rng.integers(2**31)))
    fewest, most = sizes.channels
    width = int(rng.integers(fewest, most + 1))
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=bool(rng.integers(2)))]
    drawn = (str(rng.choice(KINDS)) for _ in range(int(rng.integers(sizes.most_layers + 1))))
    for kind in chain(sizes.certain, drawn):  # one by one: widths are drawn between them
        if kind in ("residual", "depthwise"):
            layers.append(_Residual(width, width if kind == "depthwise" else 1))
        else:
            wider = int(rng.integers(fewest, most + 1))
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, wider, 3 if kind == "plain" else 1)]
            width = wider
    layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers)


def draw_budget(
    rng: np.random.Generator, unit: str, domains: list[str], dense: Usage, least: float = 0.05
) -> dict[str, object]:
    """Draw limits from a share of the dense network to all of it."""
    assert dense.bytes is not None
    beside = dense.bytes - 4 * dense.weights  # what no switch removes

    def share() -> float:
        return float(math.exp(rng.uniform(math.log(least), 0)))

    def macs() -> int:
        return max(1, int(share() * max(dense.macs)))

    def size() -> int:
        return beside + int(share() * 4 * dense.weights)

    some = domains[: 1 + len(domains) // 2]
    draws: dict[str, Callable[[], dict[str, object]]] = {
        "kernels": lambda: {"kernels": share()},
        "weights": lambda: {"weights": share()},
        "bytes": lambda: {"bytes": size()},
        "macs": lambda: {"macs": macs()},
        "macs by domain": lambda: {"macs": {name: macs() for name in some}},
        "kernels and macs": lambda: {"kernels": share(), "macs": macs()},
        "bytes and macs": lambda: {"bytes": size(), "macs": macs()},
        "all": lambda: {"kernels": share(), "weights": share(), "bytes": size(), "macs": macs()},
    }
    return draws[unit]()


def draw_case(rng: np.random.Generator, granularity: Granularity, until: float | None = None) -> Drawn:
    """Draw a network and one to five domains."""
    network = draw_network(rng, SIZES.get(granularity, Sizes()))
    backbone = Backbone("drawn", network, PREPROCESS, probe_network(network, SIZE))
    domains = [f"d{index}" for index in range(int(rng.integers(1, 6)))]
    classes = {name: tuple(f"c{index}" for index in range(int(rng.integers(2, 5)))) for name in domains}
    options = Options(granularity=granularity, until=until or float(rng.uniform(0.2, 1)))
    net = adapt(backbone, classes, "exact", int(rng.integers(1000)), options)
    stir(net, rng)
    recipe = parse_recipe(
        {"backbone": "drawn", "domains": domains, "method": {"name": "exact", **options.model_dump()}}
    )
    identity = Identity(
        recipe=recipe,
        backbone="drawn",
        domains=dict.fromkeys(domains, "none"),
        classes=classes,
        preprocess=dict.fromkeys(domains, PREPROCESS),
    )
    return Drawn(net, backbone, identity)


@torch.no_grad()
def start_again(net: MultiDomainNet, rng: np.random.Generator) -> None:
    """Open all switches of a network, as before training, and change it by chance."""
    assert isinstance(net.switches, PooledSwitches)
    net.switches.open_DM.fill_(True)
    net.switches.fixed_DM.fill_(False)
    net.switches.scores_DM.fill_(1e-3)
    stir(net, rng)


@torch.no_grad()
def stir(net: MultiDomainNet, rng: np.random.Generator) -> None:
    """Change weights, norms and scores by chance, as training would."""
    for name, parameter in net.named_parameters():
        if not name.startswith("network."):
            noise = torch.from_numpy(rng.standard_normal(parameter.shape)).float()
            parameter.add_(noise * (1e-2 if "scores" in name else 0.3))
    for name, buffer in net.named_buffers():
        if name.endswith("running_mean") and not name.startswith("network."):
            buffer.add_(torch.from_numpy(rng.standard_normal(buffer.shape)).float())
