"""Replace convolutions that standardize their weights by plain ones.

The backbone is frozen, so the standardized weights are constants. If they were standardized after masking, a kernel
that is switched off would not stay off.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STANDARDIZED = frozenset({"StdConv2d", "StdConv2dSame", "ScaledStdConv2d", "ScaledStdConv2dSame"})  # of timm


def bake_standardized(network: nn.Module) -> nn.Module:
    """Replace every standardizing convolution, in place, by a plain one that computes the same result."""
    for name, module in list(network.named_modules()):
        if type(module).__name__ in STANDARDIZED:
            assert isinstance(module, nn.Conv2d)
            network.set_submodule(name, _plain(module), strict=True)
    return network


@torch.no_grad()
def _plain(module: nn.Conv2d) -> nn.Conv2d:
    plain = _class_of(module)(
        module.in_channels,
        module.out_channels,
        module.kernel_size,  # type: ignore[arg-type]  # always a pair here
        module.stride,  # type: ignore[arg-type]
        module.padding,  # type: ignore[arg-type]
        module.dilation,  # type: ignore[arg-type]
        module.groups,
        module.bias is not None,
    )
    plain.weight.copy_(_standardize(module))
    if module.bias is not None and plain.bias is not None:
        plain.bias.copy_(module.bias)
    return plain


def _class_of(module: nn.Conv2d) -> type[nn.Conv2d]:
    if not type(module).__name__.endswith("Same"):
        return nn.Conv2d
    import timm.layers  # noqa: PLC0415  # optional package

    same: type[nn.Conv2d] = timm.layers.Conv2dSame  # type: ignore[attr-defined]  # not in its list of exports
    return same


def _standardize(module: nn.Conv2d) -> Tensor:
    """Return weights with mean 0 and variance 1 in every filter, times the gain of the scaled kind."""
    eps = float(getattr(module, "eps", 1e-6))
    gain = getattr(module, "gain", None)
    scale = None if gain is None else (gain * float(getattr(module, "scale", 1.0))).reshape(-1)
    rows = module.weight.reshape(1, module.out_channels, -1)
    return F.batch_norm(rows, None, None, weight=scale, training=True, momentum=0.0, eps=eps).reshape_as(module.weight)
