"""Model files as genes, which can be mutated and still fit together."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod
from typing import Any, get_args

import numpy as np
from pydantic import BaseModel, ValidationError
from safetensors.numpy import save

from prunus.arrays import Array, DType
from prunus.bundle.container import METADATA_KEY, count_values
from prunus.bundle.eight_bits.rules import can_be_integer
from prunus.bundle.header import FORMATS, FileHeader, IndexEntry
from prunus.errors import BundleError
from prunus.graph.operations import ActivationName, Operation, Shape, parse_operation

MOST_BYTES = 2**24  # of data
MOST_OPERATIONS = 9990
CONSTANT = {"scales": 0.05, "classifiers": 0.05, "codings": 0.05, "zeros": 7}  # parts of 8-bit files
KINDS = ("conv", "conv", "pool", "pool", "affine", "layer_norm", "add", "mul", "cat", "append_zeros", "mean")


class Gene(BaseModel, frozen=True):
    """One operation, repeated: each after the other, or all with the same input."""

    kind: str = "conv"
    repeat: int = 1
    is_chain: bool = True
    one_layer: bool = False  # repeated convolutions use the same weights
    source: int = 0  # how many values back
    other: int = 1
    width: int = 8
    kernel: tuple[int, int] = (3, 3)
    stride: int = 1
    pad: int = 1
    dilation: int = 1
    group: int = 0  # inputs of one group; 0 for all
    activation: ActivationName = "none"
    is_max: bool = True


class Genome(BaseModel, frozen=True):
    """A model file: its graph, and how much of everything else it has."""

    side: int = 32
    domains: int = 1
    classes: int = 1
    dtype: DType = "float32"
    density: float = 0.5
    use: int = 255  # the bits of a mask's bytes
    scale: float = 1.0  # of the weights
    filler: int = 0  # values in the provenance
    tensors: str = "none"  # "shared" by all domains, or a "domain" has its own
    has_mean: bool = True
    has_integers: bool = True  # all operations of an 8-bit file that can compute with them do
    genes: tuple[Gene, ...] = (Gene(),)


@dataclass(frozen=True)
class Draft:
    """The operations of a graph so far, and the shapes of its values."""

    operations: list[Operation]
    shapes: list[Shape]

    def add(self, content: dict[str, Any]) -> bool:
        """Add an operation if it fits."""
        try:
            operation: Operation = parse_operation(content)
            shape = operation.shape([self.shapes[value] for value in operation.inputs])
        except (BundleError, ValueError):
            return False
        if min(shape) < 1 or prod(shape) > 2**26 or max(shape) > 2**16 or len(self.operations) >= MOST_OPERATIONS:
            return False
        self.operations.append(operation)
        self.shapes.append(shape)
        return True


def build(genome: Genome) -> list[Operation]:
    """Return the operations of a genome; those that do not fit are left out."""
    draft = Draft([], [(3, genome.side, genome.side)])
    for position, gene in enumerate(genome.genes):
        source = max(0, len(draft.shapes) - 1 - gene.source)
        for number in range(gene.repeat):
            start = len(draft.shapes) - 1 if gene.is_chain and number else source
            if not draft.add(_operation(gene, draft.shapes, start, f"{position}.{0 if gene.one_layer else number}")):
                break
    if genome.has_mean:
        draft.add({"op": "mean", "inputs": [len(draft.shapes) - 1]})
    if genome.has_mean or not any(operation.op == "conv" for operation in draft.operations):
        point = {"op": "conv", "layer": "last", "channels": [1, draft.shapes[-1][0]], "kernel": [1, 1]}
        draft.add(point | {"inputs": [len(draft.shapes) - 1]})
    return draft.operations


def _operation(gene: Gene, shapes: list[Shape], source: int, layer: str) -> dict[str, Any]:
    channels = shapes[source][0]
    other = max(0, source - gene.other)
    activation = {"activation": gene.activation, "slope": 0.5}
    group = gene.group if gene.group and channels % gene.group == 0 else channels
    groups = channels // group
    outputs = max(1, gene.width // groups) * groups
    window = {"kernel": list(gene.kernel), "stride": [gene.stride] * 2, "pads": [gene.pad] * 4}
    fields: dict[str, dict[str, Any]] = {
        "conv": window
        | activation
        | {"layer": layer, "channels": [outputs, group], "groups": groups, "dilation": [gene.dilation] * 2},
        "pool": window | {"kind": "max" if gene.is_max else "mean"},
        "affine": activation,
        "layer_norm": {"eps": 1e-6},
        "add": activation | {"inputs": [source, other if shapes[other] == shapes[source] else source]},
        "mul": activation | {"inputs": [source, other if shapes[other][0] == channels else source]},
        "cat": {"inputs": [source, other if shapes[other][1:] == shapes[source][1:] else source]},
        "append_zeros": {"count": gene.width},
        "mean": {},
    }
    return {"op": gene.kind, "inputs": [source]} | fields[gene.kind]


def header_of(genome: Genome) -> FileHeader:
    """Return the header of a genome's file; raise an error if its parts do not fit together."""
    graph = build(genome)
    preprocess = {"size": genome.side, "resize": genome.side, "mean": [0, 0, 0], "std": [1, 1, 1]}
    entry = {"classes": [str(number) for number in range(genome.classes)], "preprocess": preprocess}
    manifest = {"backbone": "found", "image_size": genome.side, "graph": graph, "dense_bytes": 0}
    manifest |= {"provenance": {"filler": [{} for _ in range(genome.filler)]}}
    manifest |= {"domains": {f"d{number}": entry for number in range(genome.domains)}}
    own = {"format_version": FORMATS[genome.dtype], "manifest": manifest, "dtype": genome.dtype, "sha256": ""}
    bare = FileHeader.model_validate(own | {"index": [], "norms": [], "shared": []})
    index = tuple(_index(conv.num_kernels, genome.density) for conv in bare.manifest.convs.values())
    names = tuple(
        f"{number}.{role}"
        for number, operation in enumerate(bare.manifest.graph)
        for role in operation.tensors(1)
        if genome.tensors != "none" and (role != "ones" or genome.dtype != "int8")
    )
    update: dict[str, Any] = {"index": index, "norms" if genome.tensors == "domain" else "shared": names}
    if genome.dtype == "int8" and genome.has_integers:
        roles = ("scale", "bias") if names else ()
        operations, shapes = bare.manifest.graph, bare.manifest.shapes
        integers = (
            n for n, op in enumerate(operations) if can_be_integer(op, roles, [shapes[value] for value in op.inputs])
        )
        update["manifest"] = bare.manifest.with_graph(operations, tuple(integers))
    return bare.model_copy(update=update)


def _index(kernels: int, density: float) -> IndexEntry:
    kept = int(kernels * density)
    return IndexEntry("bits" if kernels <= 64 else "runs", len(_coded(kernels, kept)), kept)


def _coded(kernels: int, kept: int) -> bytes:
    """Encode an index in which the last kernels are kept."""
    if kernels <= 64:
        return (((1 << kept) - 1) << (kernels - kept)).to_bytes(-(-kernels // 8), "little")
    coded = bytearray()
    for length in (kernels - kept, *([kept] if kept else [])):
        digits = [length >> shift & 127 for shift in range(0, max(length.bit_length(), 1), 7)]
        coded += bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])
    return bytes(coded)


def accepted_header(genome: Genome) -> tuple[FileHeader, int] | str:
    """Return the header of a genome's file and the values of its JSON, or why no reader accepts it."""
    try:
        header = header_of(genome)
        values = count_values(header.model_dump_json(exclude_defaults=True))
        problem = header.problem(values)
    except (BundleError, ValidationError) as error:
        return str(error)
    if problem is None and max(part.end for part in header.parts().values()) > MOST_BYTES:
        return "larger than the files of this search"
    return problem or (header, values)


def content_of(genome: Genome, header: FileHeader) -> bytes:
    """Return a genome's file, with a valid checksum."""
    convs = header.manifest.convs
    rng = np.random.default_rng(0)
    numbers = (rng.standard_normal(4096) * genome.scale).astype(np.float32)
    arrays: dict[str, Array] = {}
    for name, part in header.parts().items():
        stored = np.clip(numbers, -6e4, 6e4).astype(part.dtype) if part.dtype == np.float16 else numbers
        if part.dtype == np.uint16:
            stored = (numbers.view(np.uint32) >> 16).astype(np.uint16)
        if part.dtype == np.int8:
            stored = np.clip(numbers / genome.scale * 50, -127, 127).astype(np.int8)
        if name in CONSTANT:
            stored = np.full(1, CONSTANT[name], part.dtype)
        arrays[name] = np.resize(stored, part.size)
    layers = list(header.layers())
    indices = b"".join(_coded(convs[name].num_kernels, entry.kept) for name, entry in layers)
    masks = b"".join(_mask(entry.kept, genome.use) for _, entry in layers) * genome.domains
    arrays["index"], arrays["masks"] = (np.frombuffer(part, np.uint8) for part in (indices, masks))
    text = header.model_dump_json(exclude_defaults=True)
    digest = hashlib.sha256(text.encode())
    for name in header.parts():
        digest.update(arrays[name].tobytes())
    sealed = header.model_copy(update={"sha256": digest.hexdigest()})
    return save(arrays, {METADATA_KEY: sealed.model_dump_json(exclude_defaults=True)})


def _mask(kept: int, use: int) -> bytes:
    whole = bytes([use]) * (kept // 8)
    return whole + bytes([use & (2 ** (kept % 8) - 1)]) if kept % 8 else whole


def mutate(genome: Genome, rng: np.random.Generator) -> Genome:
    """Change some settings of a genome or of its genes, mostly a few."""
    for _ in range(1 + int(rng.exponential(2))):
        genome = _CHANGES[int(rng.integers(len(_CHANGES)))](genome, rng)
    return genome


def _scaled(value: int, rng: np.random.Generator, least: int, most: int) -> int:
    """Multiply by up to four or divide, or move by one."""
    if rng.random() < 0.25:
        return int(np.clip(value + int(rng.integers(-1, 2)), least, most))
    return int(np.clip(round(max(value, 1) * 2 ** rng.uniform(-1.5, 2)), least, most))


def _change_file(genome: Genome, rng: np.random.Generator) -> Genome:
    choices: dict[str, Any] = {
        "side": _scaled(genome.side, rng, 1, 4096),
        "domains": _scaled(genome.domains, rng, 1, 1000),
        "classes": _scaled(genome.classes, rng, 1, 100_000),
        "dtype": str(rng.choice(["float32", "float16", "bfloat16", "int8", "int8"])),
        "has_integers": bool(rng.random() < 0.8),
        "density": float(rng.choice([0.0, 0.01, 0.2, 0.5, 0.85, 1.0])),
        "use": int(rng.choice([0, 1, 85, 255])),
        "scale": float(rng.choice([1.0, 1e-38, 1e37])),
        "filler": _scaled(genome.filler, rng, 0, 200_000),
        "tensors": str(rng.choice(["none", "shared", "domain"])),
        "has_mean": bool(rng.random() < 0.8),
    }
    key = str(rng.choice(list(choices)))
    return genome.model_copy(update={key: choices[key]})


def _change_gene(genome: Genome, rng: np.random.Generator) -> Genome:
    position = int(rng.integers(len(genome.genes)))
    gene = genome.genes[position]
    kernel = tuple(_scaled(side, rng, 1, 1024) for side in gene.kernel)
    choices: dict[str, Any] = {
        "kind": str(rng.choice(KINDS)),
        "repeat": _scaled(gene.repeat, rng, 1, MOST_OPERATIONS),
        "is_chain": bool(rng.integers(2)),
        "one_layer": bool(rng.integers(2)),
        "source": _scaled(gene.source, rng, 0, 100),
        "other": _scaled(gene.other, rng, 0, 1000),
        "width": _scaled(gene.width, rng, 1, 2**16 - 3),
        "kernel": kernel if rng.random() < 0.5 else (kernel[0], kernel[0]),
        "stride": _scaled(gene.stride, rng, 1, 64),
        "pad": int(rng.choice([0, gene.kernel[0] // 2, gene.kernel[0] - 1, _scaled(gene.pad, rng, 0, 1000)])),
        "dilation": _scaled(gene.dilation, rng, 1, 64),
        "group": int(rng.choice([0, 1, 2, 8, _scaled(gene.group, rng, 0, 2**16)])),
        "activation": str(rng.choice(get_args(ActivationName))),
        "is_max": bool(rng.integers(2)),
    }
    key = str(rng.choice([*choices, "repeat", "width", "kernel"]))
    changed = gene.model_copy(update={key: choices[key]})
    return genome.model_copy(update={"genes": (*genome.genes[:position], changed, *genome.genes[position + 1 :])})


def _add_gene(genome: Genome, rng: np.random.Generator) -> Genome:
    position = int(rng.integers(len(genome.genes) + 1))
    gene = Gene(kind=str(rng.choice(KINDS)), width=int(2 ** rng.uniform(0, 12)), repeat=int(2 ** rng.uniform(0, 6)))
    return genome.model_copy(update={"genes": (*genome.genes[:position], gene, *genome.genes[position:])[:12]})


def _remove_gene(genome: Genome, rng: np.random.Generator) -> Genome:
    position = int(rng.integers(len(genome.genes)))
    rest = (*genome.genes[:position], *genome.genes[position + 1 :])
    return genome.model_copy(update={"genes": rest or (Gene(),)})


_CHANGES = (_change_file, _change_file, _change_gene, _change_gene, _change_gene, _add_gene, _remove_gene)
