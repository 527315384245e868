"""Compare the accuracy of fast training on a GPU (bfloat16, channels-last, CUDA graphs) with plain float32.

    python -m benchmarks.precision_accuracy [--domains demo:signs,data/dtd.zip] [--seeds 0,1,2] [--epochs 15] [--json F]

Every seed is trained in both ways with the settings of the demo and measured on the test images. The command fails if
the means differ by more than the noise of the seeds: twice the standard error of the difference, at least half a point.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import prunus
from prunus.samples import demo_names
from prunus.timing.machine import describe_machine

MODES: dict[str, dict[str, object]] = {
    "fast": {"precision": "auto", "cuda_graphs": True},
    "float32": {"precision": "float32", "cuda_graphs": False},
}
LEAST_NOISE = 0.005
MEAN = "mean"


def accuracies(domains: list[str], backbone: str, training: dict[str, object], seed: int, device: str) -> list[float]:
    """Train once and return the accuracy of every domain and their mean."""
    recipe = prunus.parse_recipe(
        {
            "preset": "paper",
            "backbone": backbone,
            "domains": domains,
            "budget": 0.25,
            "sharing": {"loss": "union"},
            "seed": seed,
            "training": {"lr": 0.05, "lr_drops": [0.5, 0.8], "dual_rate": 0.5, "strategy": "alternate"}
            | {"splits": "train+validation"}
            | training,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        run = prunus.train(recipe, Path(folder) / "run", device=device)
        results = prunus.evaluate(run, device=device)
    return [*results.accuracies.values(), results.mean_accuracy]


def noise(fast: list[float], plain: list[float]) -> float:
    """Return twice the standard error of the difference of two means."""
    error = math.sqrt(statistics.variance(fast) / len(fast) + statistics.variance(plain) / len(plain))
    return max(2 * error, LEAST_NOISE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--backbone", default="wrn28_4")
    parser.add_argument("--domains", default=",".join(f"demo:{name}" for name in demo_names()))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    domains = arguments.domains.split(",")
    names = [Path(domain.removeprefix("demo:")).stem for domain in domains]
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    rows: dict[str, list[list[float]]] = {mode: [] for mode in MODES}
    for seed in seeds:
        for mode, settings in MODES.items():
            training = {"epochs": arguments.epochs, "batch_size": 64} | settings
            rows[mode].append(accuracies(domains, arguments.backbone, training, seed, arguments.device))
            print(f"seed {seed}, {mode}: {100 * rows[mode][-1][-1]:.2f} %", flush=True)
    machine = torch.cuda.get_device_name() if arguments.device == "cuda" else describe_machine()
    columns = {mode: dict(zip([*names, MEAN], zip(*runs, strict=True), strict=True)) for mode, runs in rows.items()}
    table = Table(title=f"{arguments.backbone}, {arguments.epochs} epochs, seeds {arguments.seeds}, {machine}")
    for column in ("domain", *MODES, "difference"):
        table.add_column(column, justify="right")
    for name in [*names, MEAN]:
        means = {mode: statistics.mean(columns[mode][name]) for mode in MODES}
        spreads = {mode: statistics.stdev(columns[mode][name]) for mode in MODES}
        cells = (f"{100 * means[mode]:.1f} ± {100 * spreads[mode]:.1f}" for mode in MODES)
        table.add_row(name, *cells, f"{100 * (means['fast'] - means['float32']):+.2f}")
    Console().print(table)
    fast, plain = (list(columns[mode][MEAN]) for mode in MODES)
    difference = statistics.mean(fast) - statistics.mean(plain)
    if arguments.json:
        content = {"machine": machine, "torch": torch.__version__, "backbone": arguments.backbone, "seeds": seeds}
        content |= {"epochs": arguments.epochs, "accuracies": columns, "noise": noise(fast, plain)}
        arguments.json.write_text(json.dumps(content | {"difference": difference}, indent=2) + "\n")
    if abs(difference) > noise(fast, plain):
        raise SystemExit(
            f"missed: means differ by {100 * difference:+.2f} points, noise is {100 * noise(fast, plain):.2f}"
        )


if __name__ == "__main__":
    main()
