"""Find the convolutions whose output goes into a batch norm and nowhere else."""

from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.batchnorm import _BatchNorm


def norms_after(network: nn.Module, size: int) -> dict[str, str]:
    """Return convolution -> the batch norm that is the only layer to read it, where there is one.

    Such a norm undoes any scaling of a filter, so the gradient by a factor of the filter is 0. Convolutions with a
    bias, and layers that are called twice, are left out.
    """
    outputs: dict[Node, str] = {}  # the step of autograd that computed a convolution
    inputs: dict[Node, str] = {}  # the step of autograd whose result a norm reads

    def enter(name: str, values: tuple[object, ...]) -> None:
        if values and isinstance(values[0], Tensor) and values[0].grad_fn is not None:
            inputs[values[0].grad_fn] = name

    def leave(name: str, value: object) -> None:
        if isinstance(value, Tensor) and value.grad_fn is not None:
            outputs[value.grad_fn] = name

    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, _BatchNorm) and module.affine and module.track_running_stats:
            hooks.append(module.register_forward_pre_hook(lambda _module, values, name=name: enter(name, values)))
        if isinstance(module, nn.Conv2d) and module.bias is None:
            hooks.append(module.register_forward_hook(lambda _module, _values, value, name=name: leave(name, value)))
    was_training = network.training
    try:
        with torch.enable_grad():
            image = torch.zeros(1, 3, size, size, requires_grad=True)
            features = network.eval()(image.clone())  # a network may change the image in place
    finally:
        for hook in hooks:
            hook.remove()
        network.train(was_training)
    return _pairs(outputs, inputs, _readers(features))


def _readers(result: Tensor) -> Counter[Node]:
    """Count how often each step of autograd is read on the way to a result."""
    assert result.grad_fn is not None
    readers: Counter[Node] = Counter()
    waiting = [result.grad_fn]
    while waiting:
        for step, _ in waiting.pop().next_functions:
            if step is not None:
                readers[step] += 1
                if readers[step] == 1:
                    waiting.append(step)
    return readers


def _pairs(outputs: Mapping[Node, str], inputs: Mapping[Node, str], readers: Counter[Node]) -> dict[str, str]:
    conv_calls, norm_calls = Counter(outputs.values()), Counter(inputs.values())
    return {
        conv: inputs[step]
        for step, conv in outputs.items()
        if step in inputs and readers[step] == 1 and conv_calls[conv] == 1 and norm_calls[inputs[step]] == 1
    }
