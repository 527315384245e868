"""Cut whole channels off a network with Torch-Pruning until it has the multiply-accumulates that are wanted."""

import copy
import warnings

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from prunus.alternatives.common.joint import JointNetwork, count_macs
from prunus.errors import BackboneError, MissingExtraError

ATTEMPTS = 12  # halvings of the ratio's range


def cut_to(network: JointNetwork, macs: float, size: int) -> JointNetwork:
    """Return the smallest cut of a network that has at least so many MACs."""
    low, high = 0.0, 1.0  # the first keeps enough, the second does not
    best = network
    if count_macs(network.features, size) <= macs:
        return best
    for _ in range(ATTEMPTS):
        ratio = (low + high) / 2
        smaller = _cut(network, ratio, size)
        if count_macs(smaller.features, size) >= macs:
            low, best = ratio, smaller
        else:
            high = ratio
    return best


def _cut(network: JointNetwork, ratio: float, size: int) -> JointNetwork:
    """Cut a share of the channels of every layer, those whose weights in all coupled layers are smallest."""
    try:
        import torch_pruning  # noqa: PLC0415  # optional
    except ImportError:
        raise MissingExtraError("torch-pruning", "versus", "cutting channels") from None
    smaller = copy.deepcopy(network).cpu().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layers that it leaves alone
        try:
            pruner = torch_pruning.pruner.BasePruner(
                smaller,
                torch.zeros(1, 3, size, size),
                importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
                pruning_ratio=ratio,
                ignored_layers=list(smaller.heads),
            )
            pruner.step()
        except Exception as error:  # it runs the network's own code, and raises many types
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BackboneError(f"Torch-Pruning cannot cut this network: {reason}") from error
    return smaller


def cuttable(features: nn.Module, size: int) -> nn.Module:
    """Return a network in which appended zero channels are written as a 1x1 convolution by the identity.

    Torch-Pruning knows no padding of channels. The convolution computes the same, and can be cut and trained.
    """
    copied = copy.deepcopy(features)
    module = fx.symbolic_trace(copied.eval())  # for any number of images
    with torch.no_grad():
        ShapeProp(module).propagate(torch.zeros(1, 3, size, size))
    graph = module.graph
    appending = {node: count for node in graph.nodes if (count := _appended(node))}
    if not appending:
        return features
    for number, (node, count) in enumerate(appending.items()):
        source = node.all_input_nodes[0]
        name = f"appended_{number}"
        module.add_submodule(name, _identity(source.meta["tensor_meta"].shape[1], count))
        with graph.inserting_after(node):
            layer = graph.call_module(name, (source,))
        node.replace_all_uses_with(layer)
        graph.erase_node(node)
    module.recompile()
    return module.train(features.training)


def _appended(node: fx.Node) -> int:
    """Return the number of zero channels that a node appends to its input."""
    if node.op != "call_function" or node.target is not F.pad:
        return 0
    settings = dict(zip(("input", "pad", "mode", "value"), node.args, strict=False)) | node.kwargs
    sides = settings["pad"]
    is_zero = settings.get("mode", "constant") == "constant" and not settings.get("value")
    appends = isinstance(sides, (tuple, list)) and len(sides) == 6 and not any(sides[:5])
    return int(str(sides[5])) if is_zero and appends and isinstance(sides, (tuple, list)) else 0


def _identity(channels: int, appended: int) -> nn.Conv2d:
    layer = nn.Conv2d(channels, channels + appended, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(channels + appended, channels)[..., None, None])
    return layer
