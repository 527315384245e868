"""Measure 8-bit models with random masks against ONNX Runtime with the dense network in 8 bits.

    python -m benchmarks.int8_speed [--network NAME ...] [--rounds 60] [--json FILE]

One image at a time. Kernels are switched off at random in every layer, in 1x1 layers four inputs at a time. ONNX
Runtime runs the same network with all kernels on, quantized by its own tools (unsigned activations, signed weights per
channel), in one thread. Prunus runs in one thread and in two, and in one thread in float32 with the same masks. All
take turns in one process, each with many calls in a row, and the medians are compared. A ratio below its target is an
error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from benchmarks.random_models import random_model
from prunus.arrays import Floats
from prunus.backbone.zoo import load_backbone
from prunus.bundle.bundle import Bundle
from prunus.bundle.eight_bits.splitting import possible_integers
from prunus.config import BackboneChoice
from prunus.errors import PrunusError
from prunus.onnx.model import domain_model
from prunus.quantizing.calibration import calibrate
from prunus.quantizing.coder import make_coder
from prunus.quantizing.images import Pictures
from prunus.runtime._native import available_kernels
from prunus.runtime.native_engine import NativeEngine
from prunus.timing.eight_bits import quantize
from prunus.timing.machine import describe_machine
from prunus.timing.sessions import onnx_run
from prunus.timing.speeds import take_turns

SIZES = {"wrn28_4": 64, "timm/resnet50": 224, "timm/mobilenetv2_100": 224}
# network -> share of kernels that are off -> how many times as fast as ONNX Runtime in 8 bits
TARGETS: dict[str, dict[float, float]] = {
    "wrn28_4": {0.5: 1.25, 0.75: 2.2, 0.9: 4.2},
    "timm/resnet50": {0.5: 1.0, 0.75: 1.9, 0.9: 4.0},
    "timm/mobilenetv2_100": {0.75: 3.0},
}
OVER_FLOAT32 = {"wrn28_4": 2.2, "timm/resnet50": 2.2}  # at every share
TWO_THREADS = {0.5: 1.6, 0.75: 1.6}  # share that is off -> gain over one thread
PAUSE = 0.002  # seconds; longer than idle threads spin
NUM_IMAGES = 4  # for the ranges of activations
Row = dict[str, float]


def in_eight_bits(bundle: Bundle, pictures: Pictures) -> Bundle:
    """Code all operations that can compute with integers; the weights are random, so there is nothing to lose."""
    coder = make_coder(bundle, calibrate(bundle, {"domain": pictures}, "largest"), "largest")
    return coder.coded(possible_integers(bundle))


def ours(bundle: Bundle, threads: int, images: Floats) -> Callable[[], object]:
    engine = NativeEngine(bundle, threads)
    return lambda: engine.logits(images, "domain")


def measure(name: str, rounds: int) -> list[Row]:
    backbone = load_backbone(BackboneChoice(name=name, weights="random", size=SIZES.get(name)))
    size = backbone.preprocess.size
    pixels = np.random.default_rng(0).integers(0, 256, (NUM_IMAGES, 3, size, size), dtype=np.uint8)
    pictures = Pictures(pixels, backbone.preprocess)
    images = next(pictures.prepared(NUM_IMAGES))
    image = images[:1]
    dense = domain_model(onnx, random_model(backbone, 0.0), "domain").SerializeToString()
    rival = onnx_run(quantize(dense, images), threads=1)
    shares = list(TARGETS.get(name, TARGETS["wrn28_4"]))
    runs: dict[tuple[str, float], Callable[[], object]] = {("rival", 0.0): lambda: rival(image)}
    for share in shares:
        wide = random_model(backbone, share, granularity="1x4")
        narrow = in_eight_bits(wide, pictures)
        runs["int8", share] = ours(narrow, 1, image)
        runs["two threads", share] = ours(narrow, 2, image)
        runs["float32", share] = ours(wide, 1, image)
    latencies = take_turns(runs, rounds, PAUSE)
    times = {key: latency.median_ms for key, latency in latencies.items()}
    return [
        {
            "sparsity": share,
            "onnxruntime_int8_ms": times["rival", 0.0],
            "int8_ms": times["int8", share],
            "float32_ms": times["float32", share],
            "two_threads_ms": times["two threads", share],
            "speed_up": times["rival", 0.0] / times["int8", share],
            "over_float32": times["float32", share] / times["int8", share],
            "gain_of_two_threads": times["int8", share] / times["two threads", share],
        }
        for share in shares
    ]


def targets_of(name: str, row: Row) -> Mapping[str, float | None]:
    """Return the least value of every ratio of a row; None where there is no target."""
    share = row["sparsity"]
    return {
        "speed_up": TARGETS.get(name, {}).get(share),
        "over_float32": OVER_FLOAT32.get(name),
        "gain_of_two_threads": TWO_THREADS.get(share),
    }


def show(results: Mapping[str, list[Row]]) -> list[str]:
    """Print a table; return what misses its target."""
    table = Table(
        title=f"milliseconds for one image in 8 bits; ONNX Runtime {onnxruntime.__version__} runs the dense network",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    columns = ("network", "off", "ONNX int8", "int8", "speed-up", "float32", "ratio", "2 threads", "gain")
    for column in columns:
        table.add_column(column, justify="left" if column == "network" else "right", no_wrap=True)
    missed = []
    for name, rows in results.items():
        for row in rows:
            cells = [name, f"{row['sparsity']:.0%}", f"{row['onnxruntime_int8_ms']:.2f}", f"{row['int8_ms']:.2f}"]
            targets = targets_of(name, row)
            for ratio, beside in (("speed_up", "float32_ms"), ("over_float32", "two_threads_ms")):
                cells += [with_target(row[ratio], targets[ratio]), f"{row[beside]:.2f}"]
            cells.append(with_target(row["gain_of_two_threads"], targets["gain_of_two_threads"]))
            table.add_row(*cells)
            missed += [
                f"{name} at {row['sparsity']:.0%}: {ratio} {row[ratio]:.2f} of {least}"
                for ratio, least in targets.items()
                if least is not None and row[ratio] < least
            ]
    Console(width=120).print(table)
    return missed


def with_target(ratio: float, least: float | None) -> str:
    return f"{ratio:.2f} x" + (f" ({least})" if least else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", help=f"default: {', '.join(SIZES)}")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {arguments.rounds}")
    results = {name: measure(name, arguments.rounds) for name in arguments.network or SIZES}
    missed = show(results)
    print(f"{describe_machine()}; kernels: {available_kernels()[0]}; targets in brackets")
    if arguments.json:
        content = {"onnxruntime": onnxruntime.__version__, "machine": describe_machine()}
        content |= {"kernels": available_kernels()[0], "missed": missed}
        arguments.json.write_text(json.dumps(content | {"networks": results}, indent=1) + "\n")
    if missed:
        sys.exit(f"below the target: {'; '.join(missed)}")


if __name__ == "__main__":
    try:
        main()
    except PrunusError as error:
        sys.exit(str(error))
