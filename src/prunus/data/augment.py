"""Random crops and mirrors of a whole batch in one gather, on any device.

Legend: B = batch, R = stored side, S = input side of the network.
"""

import torch
from torch import Tensor

from prunus.images import Preprocess


def random_crops(images_BRR: Tensor, size: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Cut a random window out of every image and mirror half of them: (B, 3, S, S), still bytes."""
    batch, channels, side, _ = images_BRR.shape
    device = images_BRR.device
    # drawn on the CPU: every device sees the same crops
    corners_B2 = torch.randint(side - size + 1, (batch, 2), generator=generator).to(device)
    flips_B = (torch.rand(batch, generator=generator) < (0.5 if mirror else 0.0)).to(device)
    span = torch.arange(size, device=device)
    rows_BS = corners_B2[:, :1] + span
    columns_BS = corners_B2[:, 1:] + torch.where(flips_B[:, None], span.flip(0), span)
    flat_BS = (rows_BS[:, :, None] * side + columns_BS[:, None, :]).reshape(batch, 1, size * size)
    index = flat_BS.expand(-1, channels, -1)
    return images_BRR.reshape(batch, channels, side * side).gather(2, index).reshape(batch, channels, size, size)


def normalize(images: Tensor, preprocess: Preprocess) -> Tensor:
    """Scale bytes as `Preprocess.normalize` does, on the tensor's device."""
    mean, std = (torch.tensor(v, device=images.device).reshape(3, 1, 1) for v in (preprocess.mean, preprocess.std))
    return (images.float() / 255 - mean) / std
