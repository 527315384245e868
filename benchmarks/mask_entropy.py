"""Compare the bytes of the masks in model files with what coding all domains together could save at best.

    python -m benchmarks.mask_entropy MODEL... [--json FILE]

Each kept kernel has a pattern: the domains that use it. The bound is the entropy of the patterns of each layer, as
counted in that layer, without what a decoder must know about them: no code that writes pattern after pattern is
shorter. A format with such a code would be worth it if it saved a fifth of the masks.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from prunus.arrays import Bools
from prunus.bundle.bits import unpack_bits
from prunus.bundle.bundle import Bundle
from prunus.bundle.file import read_bundle
from prunus.timing.machine import describe_machine

WORTH_IT = 0.2  # of the bytes of the masks


def entropy_bits(used_DK: Bools) -> float:
    """Return the bits that the patterns of kernels take at least, one pattern a column."""
    _, counts = np.unique(used_DK, axis=1, return_counts=True)
    return float(-(counts * np.log2(counts / counts.sum())).sum())


def measure(bundle: Bundle) -> dict[str, Any]:
    masks = bits = 0.0
    for layer in bundle.manifest.convs:
        packed = bundle.packed_masks(layer)
        count = int(bundle.kept(layer).sum())
        if count:
            bits += entropy_bits(np.stack([unpack_bits(row, count) for row in packed]))
        masks += packed.nbytes
    return {
        "backbone": bundle.manifest.backbone,
        "domains": len(bundle.domains),
        "mask_bytes": int(masks),
        "entropy_bytes": round(bits / 8),
        "saved": 1 - bits / 8 / masks,
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
            f"{row['model']}: {row['domains']} domains, masks {row['mask_bytes']:,} bytes, coded together at least "
            f"{row['entropy_bytes']:,} ({row['saved']:.1%} saved, worth it from {WORTH_IT:.0%})"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": describe_machine(), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
