"""Compare the size of model files with a lower bound.

    python -m benchmarks.file_size runs/compare/union-* [--json FILE]

The bound is the sum of the weights of the kernels that some domain uses; which kernels these are, as bits or run
lengths, whichever is shorter; one bit per such kernel and domain; every domain's norms and constants; the classifiers;
and the names of domains, classes and layers. The baseline is the dense backbone without a classifier.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from prunus.arrays import DType
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.index import encode_index
from prunus.bundle.dtypes import STORED
from prunus.bundle.file import bundle_bytes
from prunus.evaluation.packing import pack_run
from prunus.timing.machine import describe_machine
from prunus.training.run import open_run

DTYPES: tuple[DType, ...] = ("float32", "float16")


def bound(bundle: Bundle, dtype: DType) -> int:
    width = STORED[dtype].itemsize
    layers = list(bundle.manifest.convs)
    kept = {layer: bundle.arrays[f"kernels/{layer}"] for layer in layers}
    weights = width * sum(array.size for array in kept.values())
    index = sum(encode_index(bundle.kept(layer))[1].size for layer in layers)
    masks = sum(-(-len(array) * len(bundle.domains) // 8) for array in kept.values())
    norms = sum(array.nbytes for name, array in bundle.arrays.items() if name.startswith(("norm/", "shared/")))
    heads = width * sum(array.size for name, array in bundle.arrays.items() if name.startswith("head/"))
    classes = [name for entry in bundle.manifest.domains.values() for name in entry.classes]
    names = sum(len(name.encode()) for name in (*bundle.domains, *classes, *layers))
    return weights + index + masks + norms + heads + names


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    table = Table()
    rows = []
    for column in ("run", "type", "file", "bound", "file / bound", "dense backbone", "file / dense"):
        table.add_column(column, justify="left" if column in ("run", "type") else "right")
    for path in arguments.runs:
        run = open_run(path, device="cpu")
        bundle = pack_run(run)
        dense = run.net.dense_bytes()
        for dtype in DTYPES:
            size, least = len(bundle_bytes(bundle, dtype)), bound(bundle, dtype)
            rows.append({"run": path.name, "dtype": dtype, "file": size, "bound": least, "dense": dense})
            numbers = (f"{size:,}", f"{least:,}", f"{size / least:.4f}", f"{dense:,}", f"{size / dense:.3f}")
            table.add_row(path.name, dtype, *numbers)
    Console(width=110).print(table)
    print(describe_machine())
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": describe_machine(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
