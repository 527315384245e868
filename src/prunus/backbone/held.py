"""Linear layers without switches: those that are not called with something that depends on the image.

A switch must reach every use of a weight, and what it saves must be counted. Both hold for a layer that the network
calls. Some networks read the weights of a linear layer themselves, and torch's `MultiheadAttention` holds a layer that
it never calls. Others compute position biases with linear layers, once for all images. Such layers stay whole.
"""

from collections.abc import Collection

from torch import Tensor, nn

from prunus.amounts import plural

PLAIN_LINEARS = frozenset({"Linear"})  # torch's, and timm's of the same name; subclasses may compute something else


class HeldLinear(nn.Linear):
    """A linear layer that gets no switches."""


def hold_linears(network: nn.Module, but: Collection[str] = ()) -> None:
    """Let no linear layer get switches but some; in place, and their weights stay the same tensors."""
    for name, module in network.named_modules():
        if type(module).__name__ in PLAIN_LINEARS and name not in but:
            module.__class__ = HeldLinear


def held_note(network: nn.Module) -> str | None:
    """Return a note that names the linear layers and projections that get no switches, if there are any."""
    held = {
        name: module
        for name, module in network.named_modules()
        if isinstance(module, nn.MultiheadAttention)
        or (isinstance(module, nn.Linear) and type(module).__name__ not in PLAIN_LINEARS)
    }
    if not held:
        return None
    weights = {tensor for module in held.values() for tensor in module.parameters() if tensor.ndim == 2}
    return (
        f"{plural(len(held), 'linear layer')} without switches, with {sum(map(Tensor.numel, weights)):,} weights, "
        f"such as {next(iter(held))!r}: "
        "the network does not call them with anything of the image, so they stay whole"
    )
