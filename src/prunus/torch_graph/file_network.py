"""A model file as a backbone for another domain: its kernels, with a norm wherever its domains have a scale.

Legend: C = channels, O = output channels, I = input channels of one group.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from prunus.arrays import Bools, Doubles, Floats
from prunus.bundle.bundle import Bundle
from prunus.errors import BackboneError
from prunus.graph.operations import Activated, Affine, Conv, LayerNorm, Operation
from prunus.torch_graph.operations import ACTIVATIONS, compute

Tensors = dict[str, Tensor]  # of a network, by name


class BiasNorm(nn.Module):
    """A bias per channel, where a layer has no scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Add the bias."""
        return x + self.bias[:, None, None]


class ChannelNorm(nn.Module):
    """A layer norm over the channels of each pixel."""

    def __init__(self, operation: LayerNorm, channels: int) -> None:
        super().__init__()
        self.operation = operation
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize every pixel."""
        return compute(self.operation, [x], {"scale": self.weight, "bias": self.bias})


class FileNetwork(nn.Module):
    """The convolutions of a model file, and norms that a new domain can learn.

    A file has no norms, only the scales and biases that they became. A batch norm takes the place of each scale, and
    becomes one again when the new domain is added to the file (`folded`).

    Args:
        others: layer -> weights, of which the kernels that the file lacks are taken (default: zeros).
    """

    def __init__(self, bundle: Bundle, others: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        self.bundle = bundle
        self._others = others or {}
        self.graph = bundle.manifest.graph
        self.convs = nn.ModuleDict()
        self.norms = nn.ModuleDict()
        self.fixed: dict[tuple[int, str], str] = {}  # tensors that no domain learns: operation and role -> buffer
        for number, operation in enumerate(self.graph):
            if isinstance(operation, Conv):
                self._add_convolution(operation)
            elif not isinstance(operation, (Affine, LayerNorm)):
                self._add_tensors(number, operation)
            if (norm := _norm(bundle, number)) is not None:
                self.norms[str(number)] = norm

    def _add_tensors(self, number: int, operation: Operation) -> None:
        """Keep the other tensors of an operation, such as position embeddings, as the first domain has them."""
        for role in operation.tensors(self.bundle.manifest.shapes[operation.inputs[0]][0]):
            tensor = self.bundle.tensor(self.bundle.domains[0], number, role)
            if tensor is not None:
                self.fixed[number, role] = f"fixed_{number}_{role}"
                self.register_buffer(self.fixed[number, role], torch.from_numpy(tensor.copy()))

    def _add_convolution(self, operation: Conv) -> None:
        key = conv_key(operation.layer)
        out, in_group = operation.channels
        groups, padding = operation.groups, _same_pads(operation) or (0, 0)
        conv = nn.Conv2d(
            in_group * groups, out, operation.kernel, operation.stride, padding, operation.dilation, groups, bias=False
        )
        if key in self.convs:
            if str(conv) != str(self.convs[key]):
                raise BackboneError(f"layer {operation.layer!r} runs twice, in two ways; no domain can be added")
            return
        union_OI = self.bundle.union(operation.layer)
        weight = torch.from_numpy(self.bundle.weight(operation.layer, union_OI))
        if operation.layer in self._others:
            weight = torch.where(torch.from_numpy(union_OI)[..., None, None], weight, self._others[operation.layer])
        with torch.no_grad():
            conv.weight.copy_(weight)
        self.convs[key] = conv

    def forward(self, images: Tensor) -> Tensor:
        """Compute the features of images."""
        values = [images]
        for number, operation in enumerate(self.graph):
            values.append(self._compute(number, operation, [values[value] for value in operation.inputs]))
        return values[-1].flatten(1)

    def _compute(self, number: int, operation: Operation, inputs: Sequence[Tensor]) -> Tensor:
        key = str(number)
        if not isinstance(operation, (Conv, Affine, LayerNorm)):
            own = {role: self.get_buffer(name) for (at, role), name in self.fixed.items() if at == number}
            return compute(operation, inputs, own)
        result = inputs[0]
        if isinstance(operation, Conv):
            if _same_pads(operation) is None:
                top, left, bottom, right = operation.pads
                result = nn.functional.pad(result, (left, right, top, bottom))
            result = self.convs[conv_key(operation.layer)](result)
        result = self.norms[key](result) if key in self.norms else result
        result = result + inputs[1] if len(inputs) == 2 else result
        return (
            ACTIVATIONS[operation.activation](result, operation.slope) if isinstance(operation, Activated) else result
        )

    def unions(self) -> dict[str, Bools]:
        """Return which kernels the file holds, by the name of the convolution in this network: (O, I)."""
        return {conv_name(layer): self.bundle.union(layer) for layer in self.bundle.manifest.convs}

    def tensors_of(self, domain: str) -> Tensors:
        """Return the tensors with which this network, in evaluation mode, computes a domain of the file.

        Kernels over ones become part of the bias, as if images had no border.
        """
        tensors: Tensors = {}
        for layer in self.bundle.manifest.convs:
            weight = self.bundle.weight(layer, self.bundle.mask(domain, layer))
            tensors[f"{conv_name(layer)}.weight"] = torch.from_numpy(weight)
        for key, norm in self.norms.items():
            scale, bias, ones = (self.bundle.tensor(domain, int(key), role) for role in ("scale", "bias", "ones"))
            if ones is not None:
                bias = (0 if bias is None else bias) + (1 if scale is None else scale) * ones.sum(axis=(1, 2))
            tensors |= {f"norms.{key}.{name}": tensor for name, tensor in _unfolded(norm, scale, bias).items()}
        return tensors

    def folded(self, tensors: Mapping[str, Tensor]) -> dict[tuple[int, str], Doubles]:
        """Return what this network's norms and fixed tensors become: (number of the operation, role) -> tensor."""
        found: dict[tuple[int, str], Doubles] = {
            key: tensors[name].detach().double().cpu().numpy() for key, name in self.fixed.items()
        }
        for key, norm in self.norms.items():
            own = {name: tensors[f"norms.{key}.{name}"].detach().double().cpu().numpy() for name in norm.state_dict()}
            found |= {(int(key), role): tensor for role, tensor in _folded(norm, own).items()}
        return found


def conv_key(layer: str) -> str:
    """Return the key of a layer's convolution: torch allows no dots."""
    return layer.replace(".", ":")


def conv_name(layer: str) -> str:
    """Return the name of a layer's convolution in a `FileNetwork`."""
    return f"convs.{conv_key(layer)}"


def _same_pads(conv: Conv) -> tuple[int, int] | None:
    """Return the padding of both sides, if they are the same."""
    top, left, bottom, right = conv.pads
    return (top, left) if (top, left) == (bottom, right) else None


def _norm(bundle: Bundle, number: int) -> nn.Module | None:
    """Return what learns the scale and bias of an operation, if any domain of the file has them."""
    operation, shapes = bundle.manifest.graph[number], bundle.manifest.shapes
    roles = {role for role in ("scale", "bias") for d in bundle.domains if bundle.tensor(d, number, role) is not None}
    channels = shapes[number + 1][0]
    if isinstance(operation, LayerNorm):
        return ChannelNorm(operation, channels)
    if not roles or not isinstance(operation, (Conv, Affine)):
        return None
    return nn.BatchNorm2d(channels) if "scale" in roles else BiasNorm(channels)


def _unfolded(norm: nn.Module, scale: Floats | None, bias: Floats | None) -> Tensors:
    """Return the state of a norm that computes a scale and a bias."""
    state = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    if isinstance(norm, nn.BatchNorm2d):
        state["running_mean"].zero_()
        state["running_var"].fill_(1.0 - norm.eps)
    if "weight" in state:
        state["weight"].copy_(torch.ones_like(state["weight"]) if scale is None else torch.from_numpy(scale))
    state["bias"].copy_(torch.zeros_like(state["bias"]) if bias is None else torch.from_numpy(bias))
    return state


def _folded(norm: nn.Module, own: Mapping[str, Doubles]) -> dict[str, Doubles]:
    if isinstance(norm, BiasNorm):
        return {"bias": own["bias"]}
    if not isinstance(norm, nn.BatchNorm2d):
        return {"scale": own["weight"], "bias": own["bias"]}
    scale: Doubles = own["weight"] / np.sqrt(own["running_var"] + norm.eps)
    return {"scale": scale, "bias": own["bias"] - own["running_mean"] * scale}
