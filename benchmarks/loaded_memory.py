"""Measure how much memory a loaded model of five domains takes, relative to its file.

    python -m benchmarks.loaded_memory [--network NAME ...] [--json FILE]

In every domain 50 % or 90 % of the kernels are off, at random. Each file is loaded in its own process, which has run a
small model before, so code is not counted. "loaded" is the peak until the model is ready. "one image" is what its first
answer takes in addition: activations, and the weights that 1x1 layers select. The target is a loaded model of less than
1.5 times its file; with one image, the image's values are added. Each limit allows one more megabyte for headers, lists
and half-full pages, which do not grow with the model. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.random_models import random_model
from prunus.arrays import DType
from prunus.backbone.zoo import Backbone, load_backbone
from prunus.bundle.file import write_bundle
from prunus.config import BackboneChoice
from prunus.errors import PrunusError
from prunus.timing.machine import describe_machine

NETWORKS = {"wrn28_4": 64, "timm/resnet50": 224, "timm/mobilenetv2_100": 224, "timm/mobilenetv3_large_100": 224}
DTYPES: tuple[DType, ...] = ("float32", "float16", "bfloat16")
SPARSITIES = (0.5, 0.9)
DOMAINS = ("a", "b", "c", "d", "e")
MAX_RATIO = 1.5  # of loaded model to file
FIXED = 1_000_000  # bytes

PROBE = """
import json, sys
import numpy as np
from prunus.runtime import Predictor

def ask(path):
    predictor = Predictor(path)
    yield predictor
    size = predictor.bundle.manifest.image_size
    yield predictor.logits(np.zeros((1, 3, size, size), np.float32), predictor.domains[0])

def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))

small = list(ask(sys.argv[1]))
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak
before, peaks = status("VmRSS"), []
for answer in ask(sys.argv[2]):
    peaks.append(status("VmHWM") - before)
    predictor = answer if len(peaks) == 1 else predictor
print(json.dumps([*peaks, predictor._engine.image_bytes]))
"""


@dataclass(frozen=True)
class Row:
    """The bytes of one model: its file, its process when loaded and after one image, and its activations."""

    network: str
    off: float
    dtype: DType
    file: int
    loaded: int
    used: int
    activations: int

    @property
    def ratio(self) -> float:
        return self.loaded / self.file

    @property
    def image(self) -> int:
        return self.used - self.loaded

    @property
    def is_within_limits(self) -> bool:
        room = MAX_RATIO * self.file + FIXED
        return self.loaded < room and self.used < room + self.activations + FIXED


def measure(path: Path, small: Path) -> tuple[int, int, int]:
    """Return the bytes of a model when loaded, after one image, and of one image's activations."""
    done = subprocess.run([sys.executable, "-c", PROBE, small, path], capture_output=True, text=True, check=True)
    loaded, used, activations = json.loads(done.stdout)
    return loaded, used, activations


def load(name: str, size: int | None) -> Backbone:
    return load_backbone(BackboneChoice(name=name, weights="random", size=size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", help=f"default: {', '.join(NETWORKS)}")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder, "small.prunus"), Path(folder, "model.prunus")
        write_bundle(small, random_model(load("wrn14_2", 32), 0.5))
        for name in arguments.network or NETWORKS:
            backbone = load(name, NETWORKS.get(name))
            for sparsity in SPARSITIES:
                bundle = random_model(backbone, sparsity, DOMAINS)
                for dtype in DTYPES:
                    write_bundle(path, bundle, dtype)
                    rows.append(Row(name, sparsity, dtype, path.stat().st_size, *measure(path, small)))
    table = Table(
        title=f"megabytes; target: loaded less than {MAX_RATIO} x the file + 1",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in ("network", "off", "dtype", "file", "loaded", "ratio", "image", "values"):
        table.add_column(column, justify="left" if column in ("network", "dtype") else "right", no_wrap=True)
    for row in rows:
        shown = (f"{row.file / 1e6:.1f}", f"{row.loaded / 1e6:.1f}", f"{row.ratio:.2f}")
        table.add_row(
            row.network, f"{row.off:.0%}", row.dtype, *shown, f"{row.image / 1e6:.1f}", f"{row.activations / 1e6:.1f}"
        )
    Console().print(table)
    print(describe_machine())
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"machine": describe_machine(), "rows": [asdict(row) for row in rows]}, indent=2) + "\n"
        )
    if over := [f"{row.network} {row.dtype}" for row in rows if not row.is_within_limits]:
        sys.exit(f"too much memory: {', '.join(over)}")


if __name__ == "__main__":
    try:
        main()
    except PrunusError as error:
        sys.exit(str(error))
