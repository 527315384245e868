"""Move the biases of 8-bit convolutions so that every channel keeps the mean that it has in floats.

Rounding moves the mean of a channel, because its weights are the same in every image. Every domain has biases of its
own, so moving them back takes no bytes. Images go through the network of floats and that of codes together; each
convolution is corrected before its result is used, so no error is corrected twice. What rounds decides how far a mean
moves, so biases that were moved for other operations in integers do more harm than good.

Legend: O = output channels.
"""

from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from prunus.arrays import Floats
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.rules import LARGEST_CODE
from prunus.bundle.eight_bits.splitting import split_activations
from prunus.bundle.packing import from_bundle
from prunus.graph.network import GraphNetwork
from prunus.graph.operations import Activated, Conv, Operation
from prunus.integers.coding import value_codings
from prunus.integers.lifetimes import unused_after
from prunus.quantizing.images import Loading, Pictures
from prunus.quantizing.observing import node_tensors
from prunus.torch_graph.operations import ACTIVATIONS, compute

MOST_BYTES = 2**29  # of the values that are kept at a time
Shifts = dict[tuple[str, int], Floats]  # of a domain and an operation before it is split: what its bias gains, (O,)
Rounding = Callable[[int, Tensor], Tensor]  # a value's number, and its numbers as codes


def bias_shifts(
    bundle: Bundle, coded: Bundle, integers: Collection[int], images: Mapping[str, Pictures], watch: Loading
) -> Shifts:
    """Return what is added to the biases that only one domain uses.

    Args:
        coded: the bundle with these operations in integers.
        images: of the domains whose biases move.
        watch: told of every domain that is done.
    """
    split = split_activations(bundle, integers)
    shifts: Shifts = {}
    for domain in images:
        floats, codes = (from_bundle(network, [domain]) for network in (split.bundle, coded))
        own = {n for n in range(len(split.origins)) if f"norm/{domain}/{n}.bias" in coded.arrays}
        moved = _shifts(floats, codes, _rounding(coded, domain), _stacked(images[domain], floats), own)
        shifts |= {(domain, split.origins[number].number): shift for number, shift in moved.items()}
        watch(domain, len(images[domain]), len(images[domain]))
    return shifts


def _shifts(
    floats: GraphNetwork, codes: GraphNetwork, rounded: Rounding, images: Tensor, own: set[int]
) -> dict[int, Floats]:
    """Return how far the mean of every channel is from its mean in floats, of convolutions whose bias may move."""
    exact, coarse = {0: images}, {0: rounded(0, images)}
    unused = unused_after([node.operation.inputs for node in floats.nodes])
    moved: dict[int, Floats] = {}
    with torch.inference_mode():
        for number, node in enumerate(floats.nodes):
            plain = _without_activation(node.operation)
            results = [
                compute(plain, [values[value] for value in plain.inputs], node_tensors(network, 0, number))
                for network, values in ((floats, exact), (codes, coarse))
            ]
            if isinstance(plain, Conv) and number in own:
                shift = (results[0] - results[1]).mean((0, 2, 3))
                results[1] = results[1] + shift[:, None, None]
                moved[number] = shift.numpy()
            exact[number + 1], activated = (_activate(node.operation, result) for result in results)
            coarse[number + 1] = rounded(number + 1, activated)
            for value in unused[number]:
                del exact[value], coarse[value]
    return moved


def _without_activation(operation: Operation) -> Operation:
    if not isinstance(operation, Activated):
        return operation
    return operation.model_copy(update={"activation": "none", "slope": 0.0})


def _activate(operation: Operation, result: Tensor) -> Tensor:
    if not isinstance(operation, Activated):
        return result
    return ACTIVATIONS[operation.activation](result, operation.slope)


def _rounding(coded: Bundle, domain: str) -> Rounding:
    """Return what rounds a value to its codes in one domain; values that are not coded stay as they are."""
    index, codings = coded.domains.index(domain), value_codings(coded)

    def rounded(value: int, numbers: Tensor) -> Tensor:
        if value not in codings:
            return numbers
        scale, zero = float(codings[value].scales[index]), int(codings[value].zeros[index])
        return ((numbers / scale).round().add(zero).clamp(0, LARGEST_CODE) - zero) * scale

    return rounded


def _stacked(images: Pictures, network: GraphNetwork) -> Tensor:
    """Return as many images as the values of both networks have room for."""
    unused = unused_after([node.operation.inputs for node in network.nodes])
    sizes = [int(np.prod(shape)) for shape in network.shapes]
    kept = most = sizes[0]
    for number, values in enumerate(unused):
        kept += sizes[number + 1]
        most = max(most, kept)
        kept -= sum(sizes[value] for value in values)
    count = max(1, min(len(images), MOST_BYTES // (2 * 4 * most)))
    return torch.from_numpy(next(images.prepared(count)))
