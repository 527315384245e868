"""Measure the native runtime with random kernel masks against ONNX Runtime with the dense network.

    python -m benchmarks.runtime_speed [--network NAME ...] [--rounds 60] [--json FILE]

One image at a time. Kernels are switched off at random in every layer. ONNX Runtime runs the same network with all
kernels on, in one thread; Prunus runs in one thread and in two. The engines take turns in one process, each with many
calls in a row, and the medians are compared. By the number of MACs, the speed-up could be 2 x at 50 %, 4 x at 75 % and
10 x at 90 %. A speed-up below its target is an error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
from prunus.config import BackboneChoice
from prunus.errors import PrunusError
from prunus.onnx.model import domain_model
from prunus.runtime._native import available_kernels
from prunus.runtime.native_engine import NativeEngine
from prunus.timing.machine import describe_machine
from prunus.timing.speeds import take_turns

NETWORKS = {"wrn28_4": 64, "timm/resnet50": 224}
SPARSITIES = (0.0, 0.5, 0.75, 0.9)
THREADS = (1, 2)
PAUSE = 0.002  # seconds; longer than idle threads spin
LEAST_GAIN = 1.7  # of two threads over one
TARGETS = {"wrn28_4": (0.9, 1.7, 3.2, 6.5), "timm/resnet50": (0.9, 1.2, 2.4, 5.0)}


def session(bundle: Bundle) -> Any:  # noqa: ANN401  # untyped
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = domain_model(onnx, bundle, "domain").SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def ours(bundle: Bundle, threads: int, images: Floats) -> Callable[[], object]:
    engine = NativeEngine(bundle, threads)
    return lambda: engine.logits(images, "domain")


def measure(name: str, rounds: int) -> list[dict[str, float]]:
    choice = BackboneChoice(name=name, weights="random", size=NETWORKS.get(name))
    backbone = load_backbone(choice)
    size = backbone.preprocess.size
    images = np.random.default_rng(0).standard_normal((1, 3, size, size)).astype(np.float32)
    bundles = [random_model(backbone, sparsity) for sparsity in SPARSITIES]
    dense = session(bundles[0])
    runs: dict[tuple[int, float], Callable[[], object]] = {
        (threads, sparsity): ours(bundle, threads, images)
        for threads in THREADS
        for sparsity, bundle in zip(SPARSITIES, bundles, strict=True)
    }
    latencies = take_turns({(0, 0.0): lambda: dense.run(None, {"images": images}), **runs}, rounds, PAUSE)
    baseline = latencies[0, 0.0].median_ms
    one, two = ([latencies[threads, sparsity].median_ms for sparsity in SPARSITIES] for threads in THREADS)
    return [
        {
            "sparsity": sparsity,
            "dense_ms": baseline,
            "ours_ms": alone,
            "speed_up": baseline / alone,
            "two_threads_ms": both,
            "gain_of_two_threads": alone / both,
        }
        for sparsity, alone, both in zip(SPARSITIES, one, two, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="append", help=f"default: {', '.join(NETWORKS)}")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {arguments.rounds}")
    results: dict[str, list[dict[str, float]]] = {}
    missed: list[str] = []
    table = Table(
        title=f"milliseconds for one image; one thread against ONNX Runtime {onnxruntime.__version__}, dense",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in ("network", "off", "dense", "Prunus", "speed-up", "target", "2 threads", "gain", "target"):
        table.add_column(column, justify="left" if column == "network" else "right", no_wrap=True)
    for name in arguments.network or NETWORKS:
        results[name] = measure(name, arguments.rounds)
        for row, target in zip(results[name], TARGETS.get(name, (0, 0, 0, 0)), strict=True):
            times = (f"{row['dense_ms']:.2f}", f"{row['ours_ms']:.2f}", f"{row['speed_up']:.2f} x")
            both = (f"{row['two_threads_ms']:.2f}", f"{row['gain_of_two_threads']:.2f} x")
            targets = (f"{target} x", f"{LEAST_GAIN} x") if target else ("", "")
            table.add_row(name, f"{row['sparsity']:.0%}", *times, targets[0], *both, targets[1])
            if target and (row["speed_up"] < target or row["gain_of_two_threads"] < LEAST_GAIN):
                missed.append(f"{name} at {row['sparsity']:.0%}")
    Console().print(table)
    print(f"{describe_machine()}; kernels: {available_kernels()[0]}")
    if arguments.json:
        content = {
            "onnxruntime": onnxruntime.__version__,
            "machine": describe_machine(),
            "kernels": available_kernels()[0],
        }
        arguments.json.write_text(json.dumps(content | {"networks": results}, indent=2) + "\n")
    if missed:
        sys.exit(f"below the target: {', '.join(missed)}")


if __name__ == "__main__":
    try:
        main()
    except PrunusError as error:
        sys.exit(str(error))
