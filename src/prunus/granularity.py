"""What one switch controls: a block of neighbouring kernels of one layer.

A linear layer counts as a convolution of 1x1 kernels: each of its weights is one kernel.
"""

from collections.abc import Callable
from typing import Literal

Granularity = Literal["auto", "kernel", "1x4", "filter", "input_channel", "channel"]
WeightShape = tuple[int, int, int, int]  # outputs, inputs of one group, height, width

AUTO = "auto"  # chosen by the network
CHANNEL = "channel"  # all that computes and reads a channel, such as a neuron of an MLP or a head of attention
LANES = 4  # inputs that one lane of a processor's 8-bit instructions multiplies and adds

# what one switch controls -> the outputs and inputs of its kernels, by the shape of a convolution's weights
BLOCKS: dict[str, Callable[[WeightShape], tuple[int, int]]] = {
    "kernel": lambda _: (1, 1),
    "weight": lambda _: (1, 1),  # and one switch for each weight of the kernel
    "1x4": lambda shape: (1, min(LANES, shape[1])) if shape[2:] == (1, 1) else (1, 1),
    "filter": lambda shape: (1, shape[1]),
    "input_channel": lambda shape: (shape[0], 1),
}
NAMES = {"1x4": "kernel or block of four", "input_channel": "input channel"}  # where they differ from the key


def block_grid(granularity: str, shape: WeightShape) -> tuple[int, int]:
    """Count the blocks of a convolution along its outputs and its inputs; the last may be smaller."""
    outputs, inputs = BLOCKS[granularity](shape)
    return -(-shape[0] // outputs), -(-shape[1] // inputs)


def choose_granularity(granularity: str, linear_weights: int, all_weights: int) -> str:
    """Return a granularity itself; for "auto", blocks of four if most of a network's weights are in linear layers.

    One switch per weight of a transformer would take more memory in training than all its weights.
    """
    if granularity != AUTO:
        return granularity
    return "1x4" if 2 * linear_weights > all_weights else "kernel"


def unit_name(granularity: str) -> str:
    """Return what one switch controls in words."""
    return NAMES.get(granularity, granularity)
