"""Count the costs of a model file from its packed masks, which is fast for a thousand domains too."""

from collections import Counter
from collections.abc import Mapping
from math import prod

from prunus.bundle.bundle import Bundle
from prunus.granularity import CHANNEL, block_grid
from prunus.graph.channels import HELD, find_units
from prunus.graph.operations import Conv
from prunus.measure.cost import CostReport, DomainCost, count_packed_layer


def bundle_costs(bundle: Bundle, has_switches: bool = True, granularity: str = "kernel") -> CostReport:
    """Count the costs of a bundle, relative to the network before pruning.

    A file may count less than the run it was made of: it holds no kernel whose result is never read. Switches are
    counted as a run has them: by its granularity, in the network before pruning.
    """
    layers = tuple(
        count_packed_layer(
            name, bundle.packed_masks(name), conv.dense_kernels, conv.kernel[0] * conv.kernel[1], conv.positions
        )
        for name, conv in bundle.manifest.convs.items()
    )
    switches = _num_switches(bundle, granularity) if has_switches else 0
    bits = _bits(bundle)
    own = tuple(DomainCost(switches, bits[f"norm/{name}"] + bits[f"head/{name}"]) for name in bundle.domains)
    product_macs, removed = _product_macs(bundle)
    return CostReport(
        bundle.domains, layers, own, side_bits=bits["shared"], product_macs=product_macs, removed_macs=removed
    )


def _product_macs(bundle: Bundle) -> tuple[int, int]:
    """Count the MACs of products of two values, as in attention: those that are left, and those that were removed."""
    shapes, graph = bundle.manifest.shapes, bundle.manifest.graph
    sources = [[shapes[value] for value in operation.inputs] for operation in graph]
    left = sum(operation.macs(inputs) for operation, inputs in zip(graph, sources, strict=True))
    removed = sum(operation.removed_macs(inputs) for operation, inputs in zip(graph, sources, strict=True))
    return left, removed


def _num_switches(bundle: Bundle, granularity: str) -> int:
    convs = {op.layer: op for op in bundle.manifest.graph if isinstance(op, Conv)}
    if granularity == CHANNEL:
        return _num_channels(bundle, convs)
    return sum(prod(block_grid(granularity, (*(op.was or op.channels), *op.kernel))) for op in convs.values())


def _num_channels(bundle: Bundle, convs: Mapping[str, Conv]) -> int:
    """Count the channels that could be removed before pruning; those of a layer have equally many rows."""
    units = find_units(bundle.manifest.graph, bundle.manifest.image_size)
    total = 0
    for layer, count in units.sizes.items():
        rows = int((units.outputs[layer] != HELD).sum())
        was = (convs[layer].was or convs[layer].channels)[0]
        total += count + (was - len(units.outputs[layer])) * count // rows
    return total


def _bits(bundle: Bundle) -> Counter[str]:
    """Count the bits of the arrays under `norm/<domain>`, `head/<domain>` and `shared`, in one pass over all arrays."""
    bits: Counter[str] = Counter()
    for name, array in bundle.arrays.items():
        kind, owner = name.split("/")[:2]
        if kind == "head" and name.endswith("/scale"):  # numbers are counted as if they were floats, without scales
            continue
        bits[kind if kind == "shared" else f"{kind}/{owner}"] += 32 * array.size
    return bits
