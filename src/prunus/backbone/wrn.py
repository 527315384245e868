"""The wide residual network of the Visual Decathlon, in the sizes of the bundled weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import override


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut; a stride halves the image and pads the shortcut with zero channels."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.stride = stride
        self.new_channels = out_channels - in_channels

    @override
    def forward(self, x: Tensor) -> Tensor:
        shortcut = F.avg_pool2d(x, self.stride) if self.stride > 1 else x
        if self.new_channels:
            shortcut = F.pad(shortcut, (0, 0, 0, 0, 0, self.new_channels))
        x = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(x)) + shortcut)


class WideResNet(nn.Module):
    """A stem, three stages of blocks, a norm, and the mean over the image."""

    def __init__(self, blocks: int, stem: int, widths: tuple[int, int, int]) -> None:
        super().__init__()
        self.stem = nn.Sequential()
        self.stem.add_module("conv", nn.Conv2d(3, stem, 3, padding=1, bias=False))
        self.stem.add_module("norm", nn.BatchNorm2d(stem))
        self.stages = nn.Sequential()
        self.feature_info = [
            {"module": f"stages.{i}", "num_chs": width} for i, width in enumerate(widths)
        ]  # as in timm
        channels = stem
        for width in widths:
            stage = nn.Sequential()
            for index in range(blocks):
                stage.append(Block(channels, width, stride=2 if index == 0 else 1))
                channels = width
            self.stages.append(stage)
        self.final_norm = nn.BatchNorm2d(channels)

    @override
    def forward(self, images: Tensor) -> Tensor:
        x = self.stages(self.stem(images))
        return torch.mean(F.relu(self.final_norm(x)), dim=(2, 3))


def wrn28_4() -> WideResNet:
    """Build the paper's network: 5.81 M convolution weights."""
    return WideResNet(blocks=4, stem=32, widths=(64, 128, 256))


def wrn14_2() -> WideResNet:
    """Build a small variant for demonstrations on a CPU."""
    return WideResNet(blocks=2, stem=16, widths=(32, 64, 128))
