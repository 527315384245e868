"""Which torch operation becomes which operation of a graph.

A key is a layer's class, a function, the name of a tensor's method, or the name of a class of timm's (which need not be
installed). A layer is looked up by its class, then by its parents'.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from prunus.lowering.builder import GraphBuilder, Rule
from prunus.lowering.rules import arithmetic, attention, layers, pools, resizing
from prunus.lowering.rules.activations import ACTIVATION_RULES, Key
from prunus.lowering.rules.rearranging import REARRANGING

RULES: dict[Key, Rule] = {
    **ACTIVATION_RULES,
    **REARRANGING,
    nn.Conv2d: layers.convolution,
    nn.Linear: layers.linear,
    _BatchNorm: layers.batch_norm,
    nn.LayerNorm: layers.layer_norm,
    nn.GroupNorm: layers.group_norm,
    **dict.fromkeys((nn.MaxPool2d, F.max_pool2d), pools.max_pool),
    **dict.fromkeys((nn.AvgPool2d, F.avg_pool2d), pools.mean_pool),
    **dict.fromkeys((nn.AdaptiveAvgPool2d, F.adaptive_avg_pool2d), pools.adaptive_pool("mean")),
    **dict.fromkeys((nn.AdaptiveMaxPool2d, F.adaptive_max_pool2d), pools.adaptive_pool("max")),
    **dict.fromkeys((torch.mean, "mean"), pools.mean),
    **dict.fromkeys((torch.sum, "sum"), pools.total),
    **dict.fromkeys((torch.add, "add", "add_", "__radd__"), arithmetic.add),
    **dict.fromkeys((torch.sub, "sub", "sub_"), arithmetic.subtract),
    **dict.fromkeys((torch.rsub, "__rsub__"), arithmetic.subtract_from),
    **dict.fromkeys((torch.mul, "mul", "mul_", "__rmul__"), arithmetic.multiply),
    **dict.fromkeys((torch.div, "div", "div_"), arithmetic.divide),
    **dict.fromkeys((torch.pow, "pow", Tensor.__pow__, torch.square, "square"), arithmetic.power),
    **dict.fromkeys((torch.addcmul, "addcmul"), arithmetic.add_product),
    **dict.fromkeys((torch.neg, "neg"), arithmetic.negate),
    **dict.fromkeys((torch.cat, torch.concat), arithmetic.concatenate),
    F.pad: resizing.pad,
    **dict.fromkeys((nn.ConstantPad2d, nn.ZeroPad2d), resizing.pad_layer),
    F.scaled_dot_product_attention: attention.scaled_dot_product,
    **dict.fromkeys((torch.matmul, torch.bmm, "matmul", "bmm", "__matmul__"), attention.multiply_matrices),
    **dict.fromkeys((torch.softmax, F.softmax, "softmax", nn.Softmax), attention.softmax),
    **dict.fromkeys((_DropoutNd, nn.Identity, F.dropout), attention.pass_scores),
    **dict.fromkeys(("contiguous", "clone", "float", "double", "to", "type_as", "detach"), attention.pass_scores),
}
# whether these find a way depends on the size of the image
RESIZING = frozenset(RULES[key] for key in (F.pad, nn.ConstantPad2d, F.interpolate, F.adaptive_avg_pool2d))


def find_rule(builder: GraphBuilder, node: fx.Node) -> Rule | None:
    """Look up how a node of the trace becomes part of the graph; None if no row of the table knows it."""
    layer = builder.traced.layer(node)
    if layer is None:
        return RULES.get(node.target)
    keys = (key for kind in type(layer).__mro__ for key in (kind, kind.__name__))
    return next((RULES[key] for key in keys if key in RULES), None)
