"""Run one blank image through a network to record its shapes."""

from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from prunus.errors import BackboneError, first_line


class SizeError(BackboneError):
    """A network that fails on images of some size, with the reason in one line."""

    def __init__(self, size: int, reason: str) -> None:
        super().__init__(f"the network does not accept images of {size} x {size} pixels: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Probe:
    """The shapes of one forward pass.

    Args:
        num_features: the length of the feature vector.
        positions: convolution or linear layer that reads the image -> the number of its output pixels or tokens.
        shapes: layer -> the shape of its output, in the order in which the layers finish.
        product_macs: multiply-accumulates of all other products of matrices, such as the two of attention.
    """

    num_features: int
    positions: dict[str, int]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    product_macs: int = 0


def probe_network(network: nn.Module, size: int) -> Probe:
    """Record the shapes of one forward pass; a layer that is called twice counts twice."""
    positions: Counter[str] = Counter()
    shapes: dict[str, tuple[int, ...]] = {}
    linear_macs = 0

    def record(name: str, module: nn.Module, output: object) -> None:
        nonlocal linear_macs
        if isinstance(output, Tensor):
            shapes.pop(name, None)  # a layer that is called twice finishes with its last call
            shapes[name] = tuple(output.shape[1:])
            if isinstance(module, nn.Conv2d):
                positions[name] += output.shape[-2] * output.shape[-1]
            elif isinstance(module, nn.Linear):
                linear_macs += output.numel() * module.in_features
                if output.requires_grad:  # what does not depend on the image is computed once, not for every image
                    positions[name] += output.numel() // module.out_features

    hooks = [
        module.register_forward_hook(lambda module, _inputs, output, name=name: record(name, module, output))
        for name, module in network.named_modules()
    ]
    was_training = network.training
    products = FlopCounterMode(display=False)
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        network.requires_grad_(False)  # so that only what depends on the image has gradients
        with products, torch.enable_grad():
            image = torch.zeros(1, 3, size, size, requires_grad=True)
            features = network.eval()(image.clone())  # a network may change the image in place
    except Exception as error:  # an own network may raise anything
        raise SizeError(size, first_line(error)) from None
    finally:
        for hook in hooks:
            hook.remove()
        for parameter in learned:
            parameter.requires_grad_(True)
        network.train(was_training)
    if not isinstance(features, Tensor) or features.ndim != 2:
        raise BackboneError(
            f"the network does not return one feature vector per image, a tensor of shape (images, features), "
            f"but {_describe(features)}"
        )
    return Probe(int(features.shape[1]), dict(positions), shapes, _matrix_macs(products) - linear_macs)


def _matrix_macs(products: FlopCounterMode) -> int:
    """Count the multiply-accumulates of all products of matrices, those of linear layers among them."""
    counts = products.get_flop_counts().get("Global", {})
    return sum(flops for operation, flops in counts.items() if "convolution" not in str(operation)) // 2


def _describe(output: object) -> str:
    """Say what a network returned in place of a feature vector, and what to do."""
    if not isinstance(output, Tensor):
        length = f" of {len(output)}" if isinstance(output, (tuple, list, dict)) else ""
        return f"a {type(output).__name__}{length}; return the features alone"
    if output.ndim == 4:
        return (
            f"a feature map of shape {tuple(output.shape)}; choose a classification network, or end yours with "
            "torch.nn.AdaptiveAvgPool2d(1) and torch.nn.Flatten()"
        )
    return f"a tensor of shape {tuple(output.shape)}; choose a classification network, or return its features"
