"""The contents of a model file: kernels by layer, what domains share, and where the bytes go."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from pydantic import JsonValue

from prunus.amounts import plural
from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.record import read_record
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.bundle.file import part_sizes, read_bundle
from prunus.graph.operations import Conv
from prunus.measure.bundle_cost import bundle_costs
from prunus.measure.result import Result, Share
from prunus.measure.sharing import by_domain, count_shared, sharing_of

PARTS = {
    "kernels": "weights of the kept kernels",
    "index": "which kernels are kept",
    "masks": "which domain uses which",
    "norms": "norms and other tensors of one domain",
    "heads": "classifiers",
    "shared": "tensors that all domains share",
}
CODINGS = {"codings": "scales and zeros of 8-bit values"}
JOINED = {"wide": "kernels", "scales": "kernels", "classifiers": "heads", "zeros": "codings"}  # of an 8-bit file
MOST_NAMES = 12  # of operations in one sentence
REST = "graph, names, classes, provenance"


class LayerContent(Result):
    """One convolution.

    Args:
        num_kernels: before pruning; shares are relative to it.
        kept: kernels that any domain uses.
        channels: remaining output channels, and remaining input channels of a group.
        usage: share of the kernels that each domain uses.
    """

    name: str
    num_kernels: int
    kept: int
    channels: tuple[int, int]
    usage: dict[str, Share]


class HeldOut(Result):
    """The accuracy of a domain on images that were held out when its codings were chosen."""

    images: int
    floats: Share
    int8: Share


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return ", ".join([*names[:MOST_NAMES], *more])


class EightBits(Result):
    """The integers of an 8-bit model file.

    Args:
        operations: of the graph.
        integers: of these, those that compute with 8-bit integers.
        kept_float: those that could, but lose too much accuracy: layers, or the kind and number of an operation.
        wide: layers whose weights are stored as float16.
        calibration: images of each domain that chose the codings; None if the file does not record it.
        held_out: the accuracy before and after, by domain, as measured when the file was written.
    """

    operations: int
    integers: int
    kept_float: tuple[str, ...]
    wide: tuple[str, ...]
    calibration: int | None
    held_out: dict[str, HeldOut]

    def in_words(self) -> list[str]:
        """Say what was decided, and what it loses."""
        lines = [f"8 bits: {self.integers} of {plural(self.operations, 'operation')} compute with integers"]
        if self.kept_float:
            lines.append(f"kept in floats, where integers lose too much: {_listed(self.kept_float)}")
        if self.wide:
            lines.append(f"weights kept as float16: {_listed(self.wide)}")
        if self.held_out:
            before, after = (mean(getattr(row, key) for row in self.held_out.values()) for key in ("floats", "int8"))
            name, row = min(self.held_out.items(), key=lambda item: item[1].int8 - item[1].floats)
            loss = f"; most is lost by {name}, {100 * row.int8:.1f} % ({100 * row.floats:.1f} %)"
            lines.append(
                f"mean accuracy on held-out images: {100 * after:.1f} % (in floats {100 * before:.1f} %)"
                f"{loss if row.int8 < row.floats else ''}"
            )
        return lines


class Inspection(Result):
    """The contents of a model file.

    Args:
        dtype: of weights and classifiers.
        domains: name -> number of classes.
        sharing: of two domains, kernels that both use / kernels that either uses.
        bytes_by_part: adds up to the size of the file.
        source: name of the domain that the backbone was pretrained on; None if it is not one of the domains.
        eight_bits: what computes with integers; None if the file is not of 8 bits.
    """

    added = ("source", "eight_bits")

    backbone: str
    dtype: DType
    domains: dict[str, int]
    layers: tuple[LayerContent, ...]
    sharing: dict[str, dict[str, Share]]
    bytes_by_part: dict[str, int]
    provenance: dict[str, JsonValue]
    source: str | None = None
    eight_bits: EightBits | None = None


def inspect_file(path: Path) -> Inspection:
    """Read a model file and describe its contents."""
    bundle = read_bundle(path)
    costs = bundle_costs(bundle)
    convs = bundle.manifest.convs
    inspection = Inspection(
        backbone=bundle.manifest.backbone,
        dtype=bundle.dtype,
        domains={name: len(entry.classes) for name, entry in bundle.manifest.domains.items()},
        layers=tuple(
            LayerContent(
                name=layer.name,
                num_kernels=layer.num_kernels,
                kept=layer.union,
                channels=(convs[layer.name].out_channels, convs[layer.name].in_channels),
                usage=costs.layer_usage(layer),
            )
            for layer in costs.layers
        ),
        sharing=bundle_sharing(bundle),
        bytes_by_part=bytes_by_part(path),
        provenance=bundle.manifest.provenance,
        source=bundle.manifest.source,
    )
    eight_bits = eight_bits_of(bundle)
    return inspection.model_copy(update={"eight_bits": eight_bits}) if eight_bits else inspection


def bundle_sharing(bundle: Bundle) -> dict[str, dict[str, float]]:
    """Return for every pair of domains kernels both use / kernels either uses."""
    both_DD = np.zeros((len(bundle.domains), len(bundle.domains)), np.int64)
    for layer in bundle.manifest.convs:  # one after the other: thousands of layers and domains would fill the memory
        both_DD += count_shared(bundle.packed_masks(layer))
    return by_domain(bundle.domains, sharing_of(both_DD))


def bytes_by_part(path: Path) -> dict[str, int]:
    """Return how many bytes of a model file each part takes."""
    return titled_parts(part_sizes(path), path.stat().st_size)


def titled_parts(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Return the sizes of a file's parts by their titles, with the rest of the file."""
    joined: Counter[str] = Counter()
    for part, size in sizes.items():
        joined[JOINED.get(part, part)] += size
    parts = {title: joined[part] for part, title in (PARTS | CODINGS).items() if part in joined}
    return parts | {REST: total - sum(parts.values())}


def eight_bits_of(bundle: Bundle) -> EightBits | None:
    """Describe the integers of a bundle; None if it is not of 8 bits."""
    if bundle.dtype != "int8":
        return None
    manifest = bundle.manifest
    integers = set(manifest.integers)
    record = read_record(manifest.provenance)
    known = {name: row for name, row in record.accuracy.items() if name in manifest.domains} if record else {}
    return EightBits(
        operations=len(manifest.graph),
        integers=len(integers),
        kept_float=tuple(_title(bundle, number) for number in possible_integers(bundle) if number not in integers),
        wide=manifest.wide,
        calibration=record.calibration if record else None,
        held_out={name: HeldOut(images=row[0], floats=row[1], int8=row[2]) for name, row in known.items()},
    )


def _title(bundle: Bundle, number: int) -> str:
    operation = bundle.manifest.graph[number]
    return operation.layer if isinstance(operation, Conv) else f"{operation.op} {number}"
