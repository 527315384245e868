"""Which layer or function is which activation of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from prunus.graph.operations import ActivationName

Activation = tuple[ActivationName, float]  # its name and its slope

# by the class's name: timm has classes of its own for some of them, which need not be installed here
LAYERS: dict[str, Callable[[Any], Activation | None]] = {
    "Identity": lambda _: ("none", 0.0),
    "ReLU": lambda _: ("relu", 0.0),
    "ReLU6": lambda _: ("relu6", 0.0),
    "Hardtanh": lambda layer: _clip(layer.min_val, layer.max_val),
    "LeakyReLU": lambda layer: ("leaky_relu", float(layer.negative_slope)),
    "ELU": lambda layer: ("elu", float(layer.alpha)),
    "SiLU": lambda _: ("silu", 0.0),
    "Swish": lambda _: ("silu", 0.0),
    "GELU": lambda layer: ("gelu_tanh" if getattr(layer, "approximate", "none") == "tanh" else "gelu", 0.0),
    "GELUTanh": lambda _: ("gelu_tanh", 0.0),
    "Mish": lambda _: ("mish", 0.0),
    "Hardswish": lambda _: ("hard_swish", 0.0),
    "HardSwish": lambda _: ("hard_swish", 0.0),
    "Hardsigmoid": lambda _: ("hard_sigmoid", 0.0),
    "HardSigmoid": lambda _: ("hard_sigmoid", 0.0),
    "Sigmoid": lambda _: ("sigmoid", 0.0),
    "Tanh": lambda _: ("tanh", 0.0),
}

# what follows the input: the names of a function's arguments
FUNCTIONS: dict[Callable[..., Any] | str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Activation | None]]] = {
    **dict.fromkeys((F.relu, torch.relu, "relu", "relu_"), (("inplace",), lambda _: ("relu", 0.0))),
    F.relu6: (("inplace",), lambda _: ("relu6", 0.0)),
    F.hardtanh: (("min_val", "max_val", "inplace"), lambda a: _clip(a.get("min_val", -1), a.get("max_val", 1))),
    F.leaky_relu: (("negative_slope", "inplace"), lambda a: ("leaky_relu", float(a.get("negative_slope", 0.01)))),
    F.elu: (("alpha", "inplace"), lambda a: ("elu", float(a.get("alpha", 1.0)))),
    F.silu: (("inplace",), lambda _: ("silu", 0.0)),
    F.gelu: (("approximate",), lambda a: ("gelu_tanh" if a.get("approximate") == "tanh" else "gelu", 0.0)),
    F.mish: (("inplace",), lambda _: ("mish", 0.0)),
    F.hardswish: (("inplace",), lambda _: ("hard_swish", 0.0)),
    F.hardsigmoid: (("inplace",), lambda _: ("hard_sigmoid", 0.0)),
    **dict.fromkeys((torch.sigmoid, F.sigmoid, "sigmoid", "sigmoid_"), ((), lambda _: ("sigmoid", 0.0))),
    **dict.fromkeys((torch.tanh, F.tanh, "tanh", "tanh_"), ((), lambda _: ("tanh", 0.0))),
}


def layer_activation(layer: nn.Module) -> Activation | None:
    """Look up what a layer computes, if it is an activation that a graph knows."""
    names = (kind.__name__ for kind in type(layer).__mro__)
    return next((LAYERS[name](layer) for name in names if name in LAYERS), None)


def _clip(low: float, high: float) -> Activation | None:
    return ("relu6", 0.0) if (low, high) == (0, 6) else None
