"""The contents of a model file: kernels by layer, what domains share, and where the bytes go."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
MOST_NAMES = 12  # of layers in one sentence
MOST_DOMAINS = 10  # that have a line of their own
KINDS = {"conv": "convolutions", "layer_norm": "layer norms", "attention": "attention"}  # that always use floats
OTHERS = "others"
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

    def right(self) -> tuple[int, int]:
        """Return how many images are right in floats and in 8 bits."""
        return round(self.floats * self.images), round(self.int8 * self.images)


def _listed(names: Sequence[str], others: int = 0) -> str:
    """List layers, and count those that are too many and operations that have no name."""
    more = [f"{plural(left, 'more layer')}" for left in [len(names) - MOST_NAMES] if left > 0]
    rest = [plural(others, "other operation" if names else "operation")] if others else []
    return ", ".join([*names[:MOST_NAMES], *more, *rest])


class EightBits(Result):
    """The integers of an 8-bit model file.

    Args:
        operations: of the graph.
        integers: of these, those that compute with 8-bit integers.
        kept_float: layers that could, but returned to floats so that less accuracy is lost.
        kept_others: how many other operations did.
        always_float: how many operations cannot compute with integers, by kind.
        wide: layers whose weights are stored as float16; they compute with floats.
        calibration: images of each domain that chose the codings; None if the file does not record it.
        held_out: the accuracy before and after, by domain, as measured when the file was written.
        unmeasured: domains that had no held-out images.
    """

    operations: int
    integers: int
    kept_float: tuple[str, ...]
    kept_others: int
    always_float: dict[str, int]
    wide: tuple[str, ...]
    calibration: int | None
    held_out: dict[str, HeldOut]
    unmeasured: tuple[str, ...]

    def in_words(self) -> list[str]:
        """Say what was decided, and what it loses."""
        lines = [f"8 bits: {self.integers} of {plural(self.operations, 'operation')} compute with integers"]
        if fixed := sum(self.always_float.values()):
            kinds = ", ".join(f"{kind} {count}" for kind, count in self.always_float.items())
            lines[0] += f"; {fixed} always {'uses' if fixed == 1 else 'use'} floats ({kinds})"
        returned = [layer for layer in self.kept_float if layer not in set(self.wide)]
        if not self.integers:
            lines.append("without integers the file is small, but not faster than a file of floats")
        elif returned or self.kept_others:
            lines.append(f"returned to floats, to lose less accuracy: {_listed(returned, self.kept_others)}")
        if self.wide:
            lines.append(f"weights kept as float16, and computed in floats: {_listed(self.wide)}")
        return [*lines, *self._accuracy_in_words()]

    def _accuracy_in_words(self) -> Iterator[str]:
        """Say how many held-out images of each domain are right, or of those that lose most if there are many."""
        rows = sorted(self.held_out.items(), key=lambda item: item[1].int8 - item[1].floats)
        worst = {name for name, _ in rows[:MOST_DOMAINS]}
        if rows:
            before, after = (mean(getattr(row, key) for _, row in rows) for key in ("floats", "int8"))
            title = "accuracy" if len(rows) == 1 else "mean accuracy"
            yield f"{title} on held-out images: {100 * after:.1f} % (in floats {100 * before:.1f} %)"
        for name, row in self.held_out.items():
            if name in worst:
                floats, coded = row.right()
                yield f"in {name}, {coded:,} of {row.images:,} are right (in floats {floats:,})"
        if left := len(rows) - len(worst):
            yield f"{plural(left, 'other domain loses', 'other domains lose')} less or nothing"
        if self.unmeasured:
            yield f"not measured, because no images were held out: {', '.join(self.unmeasured)}"


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
    possible = set(possible_integers(bundle))
    kept = [manifest.graph[number] for number in sorted(possible - integers)]
    fixed = Counter(KINDS.get(o.op, OTHERS) for number, o in enumerate(manifest.graph) if number not in possible)
    layers = tuple(dict.fromkeys(operation.layer for operation in kept if isinstance(operation, Conv)))
    return EightBits(
        operations=len(manifest.graph),
        integers=len(integers),
        kept_float=layers,
        kept_others=sum(not isinstance(operation, Conv) for operation in kept),
        always_float={kind: fixed[kind] for kind in sorted(fixed, key=lambda kind: (kind == OTHERS, -fixed[kind]))},
        wide=manifest.wide,
        calibration=record.calibration if record else None,
        held_out={name: HeldOut(images=row[0], floats=row[1], int8=row[2]) for name, row in known.items()},
        unmeasured=tuple(name for name in manifest.domains if record and name not in known),
    )
