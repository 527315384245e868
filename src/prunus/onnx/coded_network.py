"""A network of an 8-bit file with all that an ONNX model of it needs, for one domain or for all.

Legend: D = domains, O = output channels, K = classes, F = features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prunus.arrays import Bools, Floats, Integers
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import LARGEST_CODE
from prunus.bundle.packing import from_bundle
from prunus.graph.cut import Channels, cut_with_channels
from prunus.graph.network import GraphNetwork, Node, scale_and_bias
from prunus.graph.operations import Activated, Conv, Operation
from prunus.integers.coding import Codings, value_codings
from prunus.onnx.coded_cut import CodedFlow
from prunus.onnx.folding import FoldedNorm, fold_norm
from prunus.onnx.tensors import IMPOSSIBLE, pad_classes


@dataclass(frozen=True)
class CodedNetwork:
    """A network of an 8-bit file, for the domains of one model.

    Args:
        integers: the operations that compute with integers.
        codings: of the coded values.
        scales: layer -> (O,): those of the layers whose weights are codes.
        head_scales: those of the classifiers.
    """

    network: GraphNetwork
    integers: frozenset[int]
    codings: Mapping[int, Codings]
    scales: Mapping[str, Floats]
    head_scales: Sequence[Floats]

    def folded(self, number: int, conv: Conv) -> list[FoldedNorm]:
        """Return the folded norms of a convolution, by domain."""
        sources_D, _ = self.codings[conv.inputs[0]].doubles()
        weights_O = self.scales[conv.layer].astype(np.float64)
        norms = scale_and_bias(self.network.nodes[number].tensors, (len(sources_D), len(weights_O)))
        is_zero_OI = ~self.network.weights[conv.layer].any(axis=(2, 3))
        is_live_DO: Bools = np.logical_or.reduce(self.network.masks[conv.layer] & ~is_zero_OI, axis=2)
        return [fold_norm(weights_O, *numbers) for numbers in zip(*norms, sources_D.tolist(), is_live_DO, strict=True)]

    def heads(self) -> tuple[list[Floats], list[Floats], list[Floats]]:
        """Return the codes (K, F), scales and biases of the classifiers, padded to the largest number of classes."""
        scales = pad_classes(self.head_scales, 1.0)
        weights = pad_classes([weight for weight, _ in self.network.heads], 0.0)
        biases = pad_classes([bias for _, bias in self.network.heads], IMPOSSIBLE)
        codes = [np.rint(weight / scale[:, None]) for weight, scale in zip(weights, scales, strict=True)]
        return codes, scales, biases

    def head_norms(self) -> list[FoldedNorm]:
        """Return the folded numbers of the classifiers, by domain, where features are codes."""
        _, scales, biases = self.heads()
        sources_D, _ = self.codings[len(self.network.graph)].doubles()
        return [
            fold_norm(scale.astype(np.float64), np.ones(len(scale)), bias.astype(np.float64), source)
            for scale, bias, source in zip(scales, biases, sources_D.tolist(), strict=True)
        ]

    def limits(self, number: int, operation: Operation) -> list[tuple[int, int]]:
        """Return the lowest and the highest code of an operation's result, by domain."""
        activation = operation.activation if isinstance(operation, Activated) else "none"
        limits = []
        for scale, zero in zip(*self.codings[number + 1].doubles(), strict=True):
            high = min(LARGEST_CODE, int(zero + np.rint(6.0 / scale))) if activation == "relu6" else LARGEST_CODE
            limits.append((int(zero) if activation in ("relu", "relu6") else 0, high))
        return limits


def sums_floats(conv: Conv) -> bool:
    """Return whether a model computes an integer convolution with floats: those that add their second input.

    A runtime's integer convolution would first make codes of what is added. It is often as small as a step of the sum.
    """
    return len(conv.inputs) > 1


def domain_network(bundle: Bundle, domain: str) -> tuple[CodedNetwork, dict[str, Channels]]:
    """Return the network of one domain without the channels that it does not need, and those that are left."""
    network, codings, integers = from_bundle(bundle, [domain]), _codings(bundle, [domain]), bundle.manifest.integers
    small, channels = cut_with_channels(network, CodedFlow(network, integers, codings))
    small = replace(
        small, nodes=tuple(_without_ones(node, number in integers) for number, node in enumerate(small.nodes))
    )
    outputs = {layer: kept for layer, (kept, _) in channels.items()}
    return _coded(bundle, small, [domain], outputs), channels


def _without_ones(node: Node, is_integer: bool) -> Node:
    """Drop the kernels over ones of an integer convolution: the flow leaves them for channels that nobody reads."""
    if not is_integer or "ones" not in node.tensors:
        return node
    return Node(node.operation, {role: tensor for role, tensor in node.tensors.items() if role != "ones"})


def common_network(bundle: Bundle) -> CodedNetwork:
    """Return the network of all domains: its scales are not constant, so that runtimes compute floats in any case."""
    return _coded(bundle, from_bundle(bundle, bundle.domains), bundle.domains, {})


def _coded(
    bundle: Bundle, network: GraphNetwork, domains: Sequence[str], outputs: Mapping[str, Integers]
) -> CodedNetwork:
    scales = {layer: bundle.arrays.get(f"scale/{layer}") for layer in bundle.manifest.convs}
    present = {layer: scale.astype(np.float32) for layer, scale in scales.items() if scale is not None}
    return CodedNetwork(
        network,
        frozenset(bundle.manifest.integers),
        _codings(bundle, domains),
        {layer: scale[outputs.get(layer, slice(None))] for layer, scale in present.items()},
        [bundle.arrays[f"head/{domain}/scale"].astype(np.float32) for domain in domains],
    )


def _codings(bundle: Bundle, domains: Sequence[str]) -> dict[int, Codings]:
    indices = [bundle.domains.index(domain) for domain in domains]
    codings = value_codings(bundle)
    return {value: Codings(all_D.scales[indices], all_D.zeros[indices]) for value, all_D in codings.items()}
