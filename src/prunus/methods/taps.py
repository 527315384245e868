"""Task adaptive parameter sharing (TAPS): every domain selects layers and adds a residual to their weights.

Wallingford et al., CVPR 2022: W + 1[s > threshold] R, with a score s and a residual R per layer and domain. Gradients
pass the indicator unchanged. The loss adds sparsity times the mean of |s|, also of scores below the threshold, so a
layer that is switched off does not come back at once. First, residuals are learned without that penalty.
"""

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.backbone.zoo import Backbone
from prunus.config import Settings
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.binarize import binarize
from prunus.masks.layer_copies import DomainNorms
from prunus.masks.layout import convolutions
from prunus.masks.per_domain import PerDomain
from prunus.methods.method import Method

LONGEST_WARMUP = 0.5  # of a short run


class Options(Settings):
    """The penalty on adapted layers; the defaults are the authors' values."""

    sparsity: float = Field(default=1.0, ge=0, description="weight of the mean absolute score in the loss")
    warmup_epochs: float = Field(
        default=2.0, ge=0, description="epochs without that penalty; half of the run if it is shorter than twice that"
    )
    score_lr: float = Field(default=0.01, gt=0, description="SGD: scores")
    start: float = Field(default=0.15, description="initial score of every layer")
    threshold: float = Field(default=0.1, description="score above which a layer is adapted")


class ChosenResiduals(Adapter):
    """A residual per domain and convolution, and a score that decides whether it is added."""

    penalized: Tensor  # 0 in the warm-up, then 1; a tensor, so that a recorded step reads its present value

    def __init__(self, network: nn.Module, num_domains: int, options: Options) -> None:
        super().__init__()
        self.options = options
        self.convs = convolutions(network)
        weights = dict(network.named_parameters())
        start = {conv.name: torch.zeros_like(weights[f"{conv.name}.weight"]) for conv in self.convs}
        self.residuals = PerDomain(start, num_domains)
        self.scores = nn.ParameterList(torch.full((len(self.convs),), options.start) for _ in range(num_domains))
        self.register_buffer("penalized", torch.ones(()), persistent=False)

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        layers = zip(self.residuals.of(domain).items(), self.indicators(domain), strict=True)
        return {f"{name}.weight": frozen[f"{name}.weight"] + chosen * residual for (name, residual), chosen in layers}

    def indicators(self, domain: int) -> Tensor:
        """Return 1 for every layer that a domain adapts and 0 for the others, with gradients to the scores."""
        return binarize(self.scores[domain], self.options.threshold)

    @override
    def rates(self) -> dict[nn.Parameter, float]:
        return dict.fromkeys(self.scores, self.options.score_lr)

    @override
    def move_to(self, position: float, epochs: int) -> None:
        self.penalized.fill_(float(position >= min(self.options.warmup_epochs, LONGEST_WARMUP * epochs)))

    @override
    def loss(self, domain: int, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the penalty on scores, which is 0 in the warm-up."""
        size: Tensor = self.scores[domain].abs().mean()
        return self.options.sparsity * self.penalized * size

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        chosen = self.indicators(domain).bool().tolist()
        weights = sum(conv.num_weights for conv, is_chosen in zip(self.convs, chosen, strict=True) if is_chosen)
        return Cost(weights=weights, switches=len(chosen))


def build(backbone: Backbone, classes: Sequence[int], options: Options) -> list[Adapter]:
    """Add residuals for selected layers, and norms per domain."""
    return [
        ChosenResiduals(backbone.network, len(classes), options),
        DomainNorms(backbone.network, len(classes)),
    ]


METHOD = Method(
    summary="a residual for the layers that a domain selects",
    paper="Wallingford et al., CVPR 2022",
    cost="the weights of the selected layers",
    build=build,
    options=Options,
    weight_lr=0.01,
)
