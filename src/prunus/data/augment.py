"""Random crops and mirrors of a whole batch in one gather, on any device.

Legend: B = batch, R = stored side, S = input side of the network.
"""

import torch
from torch import Tensor

from prunus.images import Preprocess


def draw_crops(batch: int, margin: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Draw the top, the left and whether to mirror for every image of a batch: (B, 3) integers on the CPU.

    They are drawn on the CPU whatever the device, so every device sees the same crops.
    """
    corners_B2 = torch.randint(margin + 1, (batch, 2), generator=generator)
    flips_B = torch.rand(batch, generator=generator) < (0.5 if mirror else 0.0)
    return torch.cat([corners_B2, flips_B[:, None]], dim=1)


def crop(images_BRR: Tensor, crops_B3: Tensor, size: int) -> Tensor:
    """Cut the drawn window out of every image: (B, 3, S, S), still bytes."""
    batch, channels, side, _ = images_BRR.shape
    span = torch.arange(size, device=images_BRR.device)
    rows_BS = crops_B3[:, :1] + span
    columns_BS = crops_B3[:, 1:2] + torch.where(crops_B3[:, 2:] > 0, span.flip(0), span)
    flat_BS = (rows_BS[:, :, None] * side + columns_BS[:, None, :]).reshape(batch, 1, size * size)
    index = flat_BS.expand(-1, channels, -1)
    return images_BRR.reshape(batch, channels, side * side).gather(2, index).reshape(batch, channels, size, size)


def color_statistics(preprocess: Preprocess, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of the colors as tensors that broadcast over images."""
    mean, std = (torch.tensor(v, device=device).reshape(3, 1, 1) for v in (preprocess.mean, preprocess.std))
    return mean, std


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Scale bytes as `Preprocess.normalize` does, on the tensor's device."""
    return (images.float() / 255 - mean) / std
