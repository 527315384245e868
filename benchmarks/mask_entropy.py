"""Compare the bytes of plain masks with those of masks that are coded together, and with a bound.

    python -m benchmarks.mask_entropy MODEL... [--json FILE]

Each kept kernel has a pattern: the domains that use it. The bound is the entropy of the patterns of each layer, as
counted in that layer, without what a decoder must know about them: no code that writes the patterns of a layer one by
one, independently of each other, is shorter. 8-bit files code masks together where that saves a fifth of them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from prunus.arrays import Bools
from prunus.bundle.bundle import Bundle
from prunus.bundle.coding.joint_masks import WORTH_IT, encode_masks, is_worth_it
from prunus.bundle.file import read_bundle
from prunus.timing.machine import describe_machine


def entropy_bits(used_DK: Bools) -> float:
    """Return the bits that the patterns of kernels take at least, one pattern a column."""
    _, counts = np.unique(used_DK, axis=1, return_counts=True)
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def measure(bundle: Bundle) -> dict[str, Any]:
    masks = bundle.kept_masks()
    plain = sum(bundle.packed_masks(layer).nbytes for layer in bundle.manifest.convs)
    coded = encode_masks(masks)
    bound = sum(entropy_bits(mask_DK) for mask_DK in masks if mask_DK.size) / 8
    return {
        "backbone": bundle.manifest.backbone,
        "domains": len(bundle.domains),
        "mask_bytes": plain,
        "coded_bytes": coded.size,
        "saved": 1 - coded.size / plain,
        "is_worth_it": is_worth_it(coded, masks),
        "entropy_bytes": round(bound),
        "most_saved": 1 - bound / plain,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [
        {"model": path.name, "bytes": path.stat().st_size} | measure(read_bundle(path)) for path in arguments.models
    ]
    for row in rows:
        print(
            f"{row['model']}: {row['domains']} domains, masks {row['mask_bytes']:,} bytes, coded together "
            f"{row['coded_bytes']:,} ({row['saved']:.1%} saved, worth it from {WORTH_IT:.0%}; "
            f"at most {row['most_saved']:.1%} by the bound)"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": describe_machine(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
