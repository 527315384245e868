"""Masks over single weights: Piggyback, and the affine transformations of Mancini et al. that generalize it.

Mallya et al., ECCV 2018: W * M. Mancini et al., ECCVW 2018: k0 W + k1 + k2 M. Mancini et al., 2020:
k0 W + k1 + k2 M + k3 W * M. W: frozen weights of a convolution. M: 0/1 mask of a domain. k: learned coefficients, one
set per convolution and domain.

The authors of the affine masks published no code. Their papers draw the first scores between 1e-4 and 2e-4 and use a
threshold of 0, so a few steps of Adam decide a bit. How coefficients start and how fast they learn is ours. All bits
are 1 and k1 = -k2, so a network starts as the backbone, but each bit that turns off changes its weight at once.

Legend: D = domains, K = coefficients of all convolutions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import like_weight, switch_layout
from prunus.masks.switches import Switches
from prunus.methods.method import Method


class Options(Settings):
    """The initial score of a weight, its threshold and the rate of the scores; the defaults are Piggyback's."""

    start: float = Field(default=1e-2, description="initial score of every weight")
    threshold: float = Field(default=5e-3, description="score above which a weight is used")
    score_lr: float = Field(default=1e-4, gt=0, description="Adam: scores")


class AffineOptions(Settings):
    """The start of scores and coefficients, and the rate of the coefficients."""

    start: float = Field(default=1e-4, gt=0, description="initial scores lie between this and twice as much")
    mask_scale: float = Field(
        default=0.1, gt=0, description="initial k2, as a share of the standard deviation of the layer's weights"
    )
    coefficient_lr: float = Field(default=1e-3, gt=0, description="Adam: coefficients")


class WeightSwitches(Switches):
    """One switch per weight, whose scores learn at a rate of their own.

    The norms are frozen, so a network whose bits turn off faster than its classifier follows collapses to chance.
    """

    def __init__(self, network: nn.Module, num_domains: int, options: Options) -> None:
        super().__init__(switch_layout(network, "weight"), num_domains, options.start, options.threshold)
        self.score_lr = options.score_lr

    @override
    def rates(self) -> dict[nn.Parameter, float]:
        return {self.scores_DM: self.score_lr}


def affine(weight: Tensor, mask: Tensor, k: Tensor) -> Tensor:
    """Return k0 W + k1 + k2 M, plus k3 W * M if there is a fourth coefficient."""
    transformed = k[0] * weight + k[1] + k[2] * mask
    return transformed + k[3] * weight * mask if len(k) > 3 else transformed


class AffineSwitches(Switches):
    """One switch per weight, and the coefficients that combine weights and masks."""

    zeroes_weights = False

    def __init__(self, network: nn.Module, num_domains: int, options: AffineOptions, num_coefficients: int) -> None:
        layout = switch_layout(network, "weight")
        super().__init__(layout, num_domains, options.start)
        nn.init.uniform_(self.scores_DM, options.start, 2 * options.start)
        self.coefficient_lr = options.coefficient_lr
        weights = dict(network.named_parameters())
        rows = [_start(weights[f"{conv.name}.weight"], options.mask_scale, num_coefficients) for conv in layout.convs]
        self.coefficients_DK = nn.Parameter(torch.cat(rows).repeat(num_domains, 1))

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        bits = self.bits(domain)
        k = self.coefficients_DK[domain].view(len(bits), -1)
        weights = [frozen[f"{name}.weight"] for name in bits]
        return {
            f"{name}.weight": affine(weight, like_weight(mask, weight), row)
            for (name, mask), weight, row in zip(bits.items(), weights, k, strict=True)
        }

    @override
    def adam_rows(self) -> list[nn.Parameter]:
        return [self.scores_DM, self.coefficients_DK]

    @override
    def rates(self) -> dict[nn.Parameter, float]:
        return {self.coefficients_DK: self.coefficient_lr}

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        """Count one bit per weight and the coefficients; every weight is used, even if its bit is 0."""
        return Cost(switches=self.layout.num_switches, weights=self.coefficients_DK.shape[1])


def _start(weight: Tensor, mask_scale: float, num_coefficients: int) -> Tensor:
    """Return coefficients that leave weights unchanged where all bits are 1."""
    k2 = mask_scale * float(weight.detach().std(correction=0))
    return torch.tensor([1.0, -k2, k2, 0.0][:num_coefficients])


def build_piggyback(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Multiply every weight by its bit, and keep the norms of the backbone."""
    return [WeightSwitches(backbone.network, len(classes), options)]


def build_affine(
    backbone: Backbone, classes: Sequence[int], options: AffineOptions, num_coefficients: int
) -> list[Adapter]:
    """Combine weights and masks with some of the four coefficients, and add norms per domain."""
    switches = AffineSwitches(backbone.network, len(classes), options, num_coefficients)
    return [switches, DomainNorms(backbone.network, len(classes))]


PIGGYBACK = Method(
    summary="a binary mask over all weights",
    paper="Mallya et al., ECCV 2018",
    cost="1 bit per weight",
    build=build_piggyback,
    options=Options,
    masked=True,
)
WEIGHT_TRANSFORM = replace(
    PIGGYBACK,
    summary="scaled weights plus a scaled binary mask",
    paper="Mancini et al., ECCVW 2018",
    build=partial(build_affine, num_coefficients=3),
    options=AffineOptions,
)
AFFINE_MASKS = replace(
    PIGGYBACK,
    summary="an affine combination of weights, mask and masked weights",
    paper="Mancini et al., MVA 2020",
    build=partial(build_affine, num_coefficients=4),
    options=AffineOptions,
)
