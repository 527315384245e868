"""All domains' switches in one flat tensor: what makes losses, optimizer and counts single operations.

Legend: D = domains, M = switches of a domain, O = output channels, I = input channels of one group.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from prunus.masks.binarize import START_SCORE, THRESHOLD, binarize
from prunus.masks.layout import SwitchLayout


class KernelSwitches(nn.Module):
    """A learned score per domain and kernel; a kernel takes part in a domain where its score is positive."""

    def __init__(self, layout: SwitchLayout, num_domains: int) -> None:
        super().__init__()
        self.layout = layout
        self.scores_DM = nn.Parameter(torch.full((num_domains, layout.num_switches), START_SCORE))

    def tensors(self, domain: int, frozen: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Give the convolution weights as one domain sees them."""
        masks = self.layout.views(binarize(self.scores_DM[domain]))
        return {
            f"{name}.weight": frozen[f"{name}.weight"] * mask_OI[:, :, None, None] for name, mask_OI in masks.items()
        }

    def masks(self) -> Tensor:
        """Give all switches as they stand, detached: (D, M) booleans."""
        return self.scores_DM.detach() > THRESHOLD

    def layer_masks(self) -> dict[str, Tensor]:
        """Give the switches of every convolution: (D, O, I) booleans."""
        return self.layout.views(self.masks())
