"""Run one blank image through a network to record its shapes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from typing_extensions import override

from prunus.amounts import plural
from prunus.errors import BackboneError, first_line

LINEAR = "linear"
COLOURS = 3
PRODUCTS = frozenset(  # names of torch's functions and methods that multiply matrices
    (
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "addbmm",
        "baddbmm",
        "einsum",
        "tensordot",
        "inner",
        "scaled_dot_product_attention",
    )
)


class _Calls(TorchFunctionMode):
    """Counts the calls of torch's functions by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    @override
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> object:
        self.counts[getattr(func, "__name__", "")] += 1
        return func(*args, **(kwargs or {}))


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
    linear_macs = linear_calls = 0

    def record(name: str, module: nn.Module, output: object) -> None:
        nonlocal linear_macs, linear_calls
        if isinstance(output, Tensor):
            shapes.pop(name, None)  # a layer that is called twice finishes with its last call
            shapes[name] = tuple(output.shape[1:])
            if isinstance(module, nn.Conv2d):
                positions[name] += output.shape[-2] * output.shape[-1]
            elif isinstance(module, nn.Linear):
                linear_macs += output.numel() * module.in_features
                linear_calls += 1
                if output.requires_grad:  # what does not depend on the image is computed once, not for every image
                    positions[name] += output.numel() // module.out_features

    hooks = [
        module.register_forward_hook(lambda module, _inputs, output, name=name: record(name, module, output))
        for name, module in network.named_modules()
    ]
    was_training = network.training
    calls = _Calls()
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        network.requires_grad_(False)  # so that only what depends on the image has gradients
        with calls, torch.enable_grad():
            image = torch.zeros(1, 3, size, size, requires_grad=True)
            features = network.eval()(image.clone())  # a network may change the image in place
    except Exception as error:  # a user's network may raise anything
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
    multiplies = PRODUCTS & calls.counts.keys() or calls.counts[LINEAR] != linear_calls
    product_macs = _matrix_macs(network, size) - linear_macs if multiplies else 0
    return Probe(int(features.shape[1]), dict(positions), shapes, product_macs)


@torch.no_grad()
def _matrix_macs(network: nn.Module, size: int) -> int:
    """Count the multiply-accumulates of all products of matrices, those of linear layers among them."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415  # imports torch's compiler, which takes a second

    was_training = network.training
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        network.requires_grad_(False)  # the counter follows gradients, and fails where there are none to follow
        with FlopCounterMode(display=False) as products:
            network.eval()(torch.zeros(1, 3, size, size))
    finally:
        network.train(was_training)
        for parameter in learned:
            parameter.requires_grad_(True)
    counts: dict[object, int] = products.get_flop_counts().get("Global", {})
    return sum(flops for operation, flops in counts.items() if "convolution" not in str(operation)) // 2


def unread_note(
    network: nn.Module, probe: Probe, size: int, accepts: Callable[[int], bool] | None = None
) -> str | None:
    """Return a note about the border of images that patches without padding leave out, if there is one.

    Args:
        accepts: whether the network reads images of some size (default: it reads all sizes).
    """
    for name, conv in network.named_modules():
        if not isinstance(conv, nn.Conv2d) or conv.in_channels != COLOURS or name not in probe.shapes:
            continue
        patch, covered = conv.kernel_size[0], probe.shapes[name][-1] * conv.kernel_size[0]
        if conv.stride != conv.kernel_size or covered >= size:
            return None
        whole = [other for other in (covered, covered + patch) if other and (accepts is None or accepts(other))]
        others = f"; sizes that use all: {', '.join(map(str, whole))}" if whole else ""
        lost = plural(size - covered, "pixel")
        return f"patches leave out {lost} at the right and at the bottom of images{others}"
    return None


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
