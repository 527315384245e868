"""Which torch operation becomes which operation of a graph.

A key is a layer's class, a function, the name of a tensor's method, or the name of a class of timm's (which need not be
installed). A layer is looked up by its class, then by its parents'.
"""

import operator

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from prunus.lowering import arithmetic, layers, pools
from prunus.lowering.activations import ACTIVATION_RULES, Key
from prunus.lowering.builder import GraphBuilder, Rule

RULES: dict[Key, Rule] = {
    **ACTIVATION_RULES,
    nn.Conv2d: layers.convolution,
    _BatchNorm: layers.batch_norm,
    nn.LayerNorm: layers.layer_norm,
    **dict.fromkeys((nn.MaxPool2d, F.max_pool2d), pools.max_pool),
    **dict.fromkeys((nn.AvgPool2d, F.avg_pool2d), pools.mean_pool),
    **dict.fromkeys((nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d), pools.adaptive_pool("mean")),
    **dict.fromkeys((nn.AdaptiveMaxPool2d, F.adaptive_max_pool2d), pools.adaptive_pool("max")),
    **dict.fromkeys((torch.mean, "mean"), pools.mean),
    **dict.fromkeys((operator.add, operator.iadd, torch.add, "add", "add_"), arithmetic.add),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub, "sub", "sub_"), arithmetic.subtract),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul, "mul", "mul_"), arithmetic.multiply),
    **dict.fromkeys((torch.cat, torch.concat), arithmetic.concatenate),
    F.pad: arithmetic.pad,
    **dict.fromkeys((torch.flatten, torch.squeeze, "flatten", "view", "reshape", "squeeze"), arithmetic.reshape),
    nn.Flatten: arithmetic.reshape,
    **dict.fromkeys((_DropoutNd, nn.Identity, F.dropout, "contiguous", "clone", "float"), arithmetic.pass_on),
}


def find_rule(builder: GraphBuilder, node: fx.Node) -> Rule | None:
    """Look up how a node of the trace becomes part of the graph; None if no row of the table knows it."""
    layer = builder.traced.layer(node)
    if layer is None:
        return RULES.get(node.target)
    keys = (key for kind in type(layer).__mro__ for key in (kind, kind.__name__))
    return next((RULES[key] for key in keys if key in RULES), None)
