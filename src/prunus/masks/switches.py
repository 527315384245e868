"""All domains' switches in one flat tensor, which makes losses, optimizer steps and counts single operations.

Legend: D = domains, M = switches of a domain, O = output channels, I = input channels of one group.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from typing_extensions import override

from prunus.backbone.probe import Probe
from prunus.masks.adapter import Adapter, Cost
from prunus.masks.binarize import START_SCORE, THRESHOLD, binarize
from prunus.masks.layout import SwitchLayout, like_weight


class Switches(Adapter):
    """A learned score per domain and switch; a switch is on where its score is above the threshold."""

    zeroes_weights = True  # where a switch is off

    def __init__(
        self, layout: SwitchLayout, num_domains: int, start: float = START_SCORE, threshold: float = THRESHOLD
    ) -> None:
        super().__init__()
        self.layout = layout
        self.threshold = threshold
        self._unit = start - threshold  # of a score: what it starts with
        self.scores_DM = nn.Parameter(torch.full((num_domains, layout.num_switches), start))

    @override
    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        bits = self.bits(domain)
        elsewhere = self.layout.norms if self.training else {}
        weights = {name: frozen[f"{name}.weight"] for name in bits if name not in elsewhere}
        return {f"{name}.weight": weight * like_weight(bits[name], weight) for name, weight in weights.items()}

    def bits(self, domain: int) -> dict[str, Tensor]:
        """Return what a domain's weights are multiplied by, by convolution, with gradients to the scores."""
        return self.layout.factors(binarize(self.scores_DM[domain], self.threshold))

    def masks(self) -> Tensor:
        """Return all switches, detached: (D, M) booleans."""
        return self.scores_DM.detach() > self.threshold

    def soft_masks(self) -> Tensor:
        """Return how far switches are on, from 0 to 1, detached: 0.5 at the threshold, 0.73 at their start."""
        return torch.sigmoid((self.scores_DM.detach() - self.threshold) / self._unit)

    def kernel_masks(self) -> Tensor:
        """Return which kernels are on, or which weights if single weights are switched: booleans."""
        return self.layout.spread(self.masks())

    def layer_masks(self) -> dict[str, Tensor]:
        """Return the switches of every convolution with one row per domain: booleans."""
        return self.layout.views(self.masks())

    @override
    def adam_rows(self) -> list[nn.Parameter]:
        return [self.scores_DM]

    @override
    def cost(self, domain: int, run: Probe) -> Cost:
        masks = {name: mask[domain] for name, mask in self.layer_masks().items()}
        return Cost(switches=self.layout.num_switches, masks=masks)
