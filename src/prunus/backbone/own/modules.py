"""Build a user's network, and refuse in one sentence what cannot be a backbone."""

import copy
import reprlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from prunus.backbone.own.registry import OwnBackbone
from prunus.errors import BackboneError

NORMS = (_BatchNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.InstanceNorm2d)
SWITCHED = (nn.Conv2d, nn.Linear)
WRAPPERS = {"DataParallel": "module", "DistributedDataParallel": "module", "OptimizedModule": "_orig_mod"}  # of torch
CLASSIFIERS = frozenset(
    {"classifier", "fc", "logits", "last_linear"}
)  # names of parts that classify with a convolution
OLD_PARAMETRIZATIONS = {"WeightNorm": "remove_weight_norm", "SpectralNorm": "remove_spectral_norm"}  # hooks of torch


def build_own(own: OwnBackbone) -> nn.Module:
    """Return a copy of a user's network on the CPU, in single precision."""
    try:
        network = own.build()
    except Exception as error:  # the function is the user's
        reason = f"{type(error).__name__}: {error}"
        raise BackboneError(f"the function that builds backbone {own.name!r} failed ({reason}); fix it") from error
    if not isinstance(network, nn.Module):
        where = "backbone must be" if own.is_passed else f"the function that builds backbone {own.name!r} must return"
        raise BackboneError(f"{where} a torch.nn.Module, got {reprlib.repr(network)}")
    network = _unwrapped(network)
    if isinstance(network, torch.jit.ScriptModule):
        raise BackboneError(
            f"backbone {own.name!r} is a TorchScript module, whose layers are fixed; pass the module it was made from"
        )
    if any(is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())):
        raise BackboneError(f"backbone {own.name!r} has lazy layers without weights; run one image through it first")
    for problem in _layer_problems(network):
        raise BackboneError(f"backbone {own.name!r} {problem}")
    try:
        return copy.deepcopy(network).cpu().float()
    except Exception as error:  # modules may hold anything
        reason = f"{type(error).__name__}: {error}"
        raise BackboneError(f"backbone {own.name!r} cannot be copied ({reason}); pass a plain module") from error


def _unwrapped(network: nn.Module) -> nn.Module:
    """Return the network inside what torch puts around it to train on several devices or to compile it."""
    while (inner := WRAPPERS.get(type(network).__name__)) is not None:
        network = network.get_submodule(inner)
    return network


def _layer_problems(network: nn.Module) -> Iterator[str]:
    """Yield what is wrong with the layers of a network, before it runs."""
    for name, module in network.named_modules():
        if parametrize.is_parametrized(module):
            tensor = next(iter(module.parametrizations))  # by the name of a tensor
            remedy = f"torch.nn.utils.parametrize.remove_parametrizations(layer, {tensor!r})"
            yield _changes_weights(name, remedy)
        for hook in module._forward_pre_hooks.values():
            if type(hook).__name__ in OLD_PARAMETRIZATIONS:
                yield _changes_weights(name, f"torch.nn.utils.{OLD_PARAMETRIZATIONS[type(hook).__name__]}(layer)")
    if not any(isinstance(module, SWITCHED) for module in network.modules()):
        yield "has no 2-D convolution or linear layer to switch; pass another network"
    for key, value in network.state_dict().items():
        if not isinstance(value, Tensor):
            yield f"keeps {key!r}, which is no tensor, in its state, and runs keep tensors only; remove get_extra_state"
    names = defaultdict(list)
    for name, parameter in network.named_parameters(remove_duplicate=False):
        names[id(parameter)].append(name)
    for shared in names.values():
        if len(shared) > 1:
            first, second = (name.rpartition(".")[0] for name in shared[:2])
            yield f"uses one layer or weight as both {first!r} and {second!r}; let each of them have its own"


def _changes_weights(name: str, remedy: str) -> str:
    return (
        f"changes the weights of layer {name!r} before each use, which could undo a switch; "
        f"make them plain first: {remedy}"
    )


@torch.no_grad()
def check_pass(name: str, network: nn.Module, size: int) -> None:
    """Refuse a network that still has its classifier, or that uses one norm twice; it has run before."""
    calls: Counter[str] = Counter()
    leaves: list[_Call] = []

    def record(layer: str, module: nn.Module, output: object) -> None:
        calls[layer] += _is_norm(module)
        if not list(module.children()):
            leaves.append(_Call(layer, module, output))

    hooks = [
        module.register_forward_hook(lambda module, _inputs, output, layer=layer: record(layer, module, output))
        for layer, module in network.named_modules()
    ]
    was_training = network.training
    try:
        features = network.eval()(torch.zeros(1, 3, size, size))
    finally:
        for hook in hooks:
            hook.remove()
        network.train(was_training)
    for layer, count in calls.items():
        if count > 1:
            raise BackboneError(
                f"backbone {name!r} runs the norm {layer!r} {count} times in one pass, and its statistics can only fit "
                "one place; give each place a norm of its own"
            )
    if not any(isinstance(call.module, SWITCHED) for call in leaves):
        raise BackboneError(
            f"backbone {name!r} runs none of its convolutions and linear layers as layers, so none can be switched; "
            "call the layers themselves, not functions of torch with their weights"
        )
    _refuse_classifier(name, leaves, features)


@dataclass(frozen=True)
class _Call:
    """A layer that was run, and its result."""

    layer: str
    module: nn.Module
    output: object


def _refuse_classifier(name: str, leaves: Sequence[_Call], features: Tensor) -> None:
    last = leaves[-1]
    if last.output is features and isinstance(last.module, nn.Linear):
        channels = f"{last.module.in_features} -> {last.module.out_features}"
        raise BackboneError(
            f"backbone {name!r} ends with the linear layer {last.layer!r} ({channels}), its classifier, and every "
            "domain gets one of its own; put torch.nn.Identity() in its place, "
            "or after it if it belongs to the features"
        )
    weighted = [call for call in leaves if isinstance(call.module, SWITCHED)][-1]  # there is one
    if isinstance(weighted.module, nn.Conv2d) and CLASSIFIERS & set(weighted.layer.split(".")):
        raise BackboneError(
            f"backbone {name!r} ends with the convolution {weighted.layer!r}, a classifier by its name, and every "
            "domain gets one of its own; put torch.nn.Identity() in its place, "
            "or rename it if it belongs to the features"
        )


def _is_norm(module: nn.Module) -> bool:
    has_state = next(module.parameters(recurse=False), None) is not None or bool(list(module.buffers(recurse=False)))
    return has_state and (isinstance(module, NORMS) or "Norm" in type(module).__name__)
