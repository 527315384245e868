"""Batch norms as they are used: a scale and a bias in the place of four numbers per channel."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


def fold_norms(network: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Put weight / sqrt(variance + eps) and what remains of the bias in the place of every batch norm's tensors."""
    found = dict(tensors)
    for name, norm in foldable_norms(network).items():
        keys = [f"{name}.{key}" for key in ("weight", "bias", "running_mean", "running_var")]
        if all(key in found for key in keys):
            weight, bias, mean, variance = (found[key].double() for key in keys)
            scale = weight / torch.sqrt(variance + norm.eps)
            found[keys[0]], found[keys[1]] = scale.float(), (bias - mean * scale).float()
            del found[keys[2]], found[keys[3]]
    return found


def foldable_norms(network: nn.Module) -> dict[str, _BatchNorm]:
    """Find the batch norms that have weights, biases and statistics."""
    return {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, _BatchNorm) and module.affine and module.running_var is not None
    }
