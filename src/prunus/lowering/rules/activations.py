"""Which layers and functions are which activation of a graph."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from prunus.graph.operations import ActivationName
from prunus.lowering.builder import Activation, GraphBuilder, Rule, Settings, layer_settings
from prunus.lowering.views import View

Key = type[nn.Module] | Callable[..., Any] | str  # a layer's class, a function, a method, or the name of timm's class

# activations without settings
PLAIN: dict[ActivationName, tuple[Key, ...]] = {
    "none": (nn.Identity,),
    "relu": (nn.ReLU, F.relu, F.relu_, torch.relu, "relu", "relu_"),
    "relu6": (nn.ReLU6, F.relu6),
    "silu": (nn.SiLU, "Swish", F.silu),
    "gelu_tanh": ("GELUTanh",),
    "mish": (nn.Mish, "Mish", F.mish),
    "hard_swish": (nn.Hardswish, "HardSwish", F.hardswish),
    "hard_sigmoid": (nn.Hardsigmoid, "HardSigmoid", F.hardsigmoid),
    "sigmoid": (nn.Sigmoid, "Sigmoid", torch.sigmoid, F.sigmoid, "sigmoid", "sigmoid_"),
    "tanh": (nn.Tanh, "Tanh", torch.tanh, F.tanh, "tanh", "tanh_"),
}
Choice = Callable[[Settings], Activation | None]

# activations with settings, in the order of the function's arguments
CHOSEN: dict[tuple[Key, ...], tuple[tuple[str, ...], Choice]] = {
    (nn.Hardtanh, F.hardtanh): (
        ("min_val", "max_val"),
        lambda s: ("relu6", 0.0) if (s.get("min_val", -1), s.get("max_val", 1)) == (0, 6) else None,
    ),
    (nn.LeakyReLU, F.leaky_relu, F.leaky_relu_): (
        ("negative_slope",),
        lambda s: ("leaky_relu", float(s.get("negative_slope", 0.01))),
    ),
    (nn.ELU, F.elu, F.elu_): (("alpha",), lambda s: ("elu", float(s.get("alpha", 1.0)))),
    (nn.GELU, "GELU", F.gelu): (
        ("approximate",),
        lambda s: ("gelu_tanh" if s.get("approximate") == "tanh" else "gelu", 0.0),
    ),
}


def _always(name: ActivationName) -> Choice:
    return lambda settings: (name, 0.0)


ACTIVATIONS: dict[Key, tuple[tuple[str, ...], Choice]] = {
    **{key: ((), _always(name)) for name, keys in PLAIN.items() for key in keys},
    **{key: choice for keys, choice in CHOSEN.items() for key in keys},
}


def layer_activation(layer: nn.Module) -> Activation | None:
    """Return the activation that a layer computes, if it is one that a graph knows."""
    for kind in type(layer).__mro__:
        if kind in ACTIVATIONS or kind.__name__ in ACTIVATIONS:
            names, choose = ACTIVATIONS[kind if kind in ACTIVATIONS else kind.__name__]
            return choose(layer_settings(layer, names))
    return None


def _rule(names: tuple[str, ...], choose: Choice) -> Rule:
    def activate(builder: GraphBuilder, node: fx.Node) -> View | None:
        activation = choose(builder.settings(node, names))
        if activation is None:
            return None
        return builder.each(builder.first(node), lambda value: builder.activate(value, activation))

    return activate


ACTIVATION_RULES: dict[Key, Rule] = {key: _rule(names, choose) for key, (names, choose) in ACTIVATIONS.items()}
