"""Count the costs of a model file from its packed masks, which is fast for a thousand domains too."""

from collections import Counter

from prunus.bundle.bundle import Bundle
from prunus.graph.operations import Conv
from prunus.measure.cost import CostReport, DomainCost, count_packed_layer


def bundle_costs(bundle: Bundle, has_switches: bool = True, granularity: str = "kernel") -> CostReport:
    """Count the costs of a bundle, relative to the network before pruning.

    A file may count less than the run it was made of: it holds no kernel whose result is never read. Switches are
    counted as a run has them: one per kernel, filter or input channel of the network before pruning.
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
    return CostReport(bundle.domains, layers, own, side_bits=bits["shared"])


def _num_switches(bundle: Bundle, granularity: str) -> int:
    shapes = {op.layer: op.was or op.channels for op in bundle.manifest.graph if isinstance(op, Conv)}
    if granularity == "filter":
        return sum(outputs for outputs, _ in shapes.values())
    if granularity == "input_channel":
        return sum(inputs for _, inputs in shapes.values())
    return sum(outputs * inputs for outputs, inputs in shapes.values())


def _bits(bundle: Bundle) -> Counter[str]:
    """Count the bits of the arrays under `norm/<domain>`, `head/<domain>` and `shared`, in one pass over all arrays."""
    bits: Counter[str] = Counter()
    for name, array in bundle.arrays.items():
        kind, owner = name.split("/")[:2]
        bits[kind if kind == "shared" else f"{kind}/{owner}"] += 32 * array.size
    return bits
